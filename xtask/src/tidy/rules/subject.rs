//! Which subject a file's rules belong to.

use std::path::Path;

/// A page of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subject {
    /// Of its page, in `docs/rules`.
    pub(super) file: &'static str,
    pub(super) title: &'static str,
    /// How the paths of its tests begin.
    paths: &'static [&'static str],
}

const fn subject(file: &'static str, title: &'static str, paths: &'static [&'static str]) -> Subject {
    Subject { file, title, paths }
}

/// In the catalogue's order. A path belongs to the subject with the longest beginning of it.
pub(super) const SUBJECTS: [Subject; 20] = [
    subject(
        "process.md",
        "The process",
        &[
            "crates/csi-proto/",
            "crates/ebs-csi-driver/src/",
            "crates/ebs-telemetry/",
            "crates/go-flags/",
            "crates/grpc-authority/",
            "crates/klog/",
            "crates/process-signals/",
        ],
    ),
    subject("registrar.md", "The registrar", &["crates/csi-node-driver-registrar/"]),
    subject("controller.md", "The controller service", &["crates/ebs-driver/"]),
    subject(
        "node.md",
        "The node service",
        &["crates/ebs-driver/src/node", "crates/ebs-driver/tests/node", "crates/ebs-mounter/", "crates/ebs-torture/"],
    ),
    subject(
        "product.md",
        "The product from outside",
        &["crates/ebs-csi-driver/tests/", "xtask/src/demo", "xtask/tests/"],
    ),
    subject("windows.md", "Windows nodes: storage", &["crates/winstorage/"]),
    subject("windows-node.md", "Windows nodes: the node service", &["crates/ebs-windows-node/"]),
    subject("csi-proxy.md", "Windows nodes: csi-proxy", &["crates/csi-proxy/", "crates/csi-proxy-proto/"]),
    subject("policy.md", "Volumes, attachments and snapshots on EC2", &["crates/ebs-cloud/"]),
    subject(
        "traffic.md",
        "Traffic to EC2: rates, batches, waits",
        &["crates/ebs-calls/", "crates/ebs-cloud/src/describe/", "crates/ebs-cloud/tests/traffic/"],
    ),
    subject(
        "ec2-calls.md",
        "Calls to EC2",
        &["crates/ebs-aws/", "crates/ebs-ec2/", "crates/ebs-csi-driver/tests/sdk_in_process"],
    ),
    subject("metadata.md", "The instance's metadata and limits", &["crates/ebs-metadata/"]),
    subject("kubernetes.md", "Kubernetes", &["crates/ebs-kubernetes/"]),
    subject("types.md", "Ids, sizes, volume types", &["crates/ebs-types/"]),
    subject("tag-templates.md", "Templates of tag values", &["crates/go-template/"]),
    subject("model.md", "The model test", &["crates/ebs-model/", "crates/ebs-csi-driver/tests/model_over_sdk"]),
    subject(
        "simulator-state.md",
        "The simulator: EC2's state and disks",
        &["crates/ebs-sim/src/state/", "crates/ebs-sim/src/plane/"],
    ),
    subject("simulator.md", "The simulator: protocols, faults, ledger", &["crates/ebs-sim/"]),
    subject(
        "rights.md",
        "The rights that calls to EC2 take",
        &["crates/ebs-sim/src/iam/", "crates/ebs-sim/tests/sim/rights", "crates/ebs-testkit/src/world/"],
    ),
    subject(
        "repository.md",
        "Tests and tools of the repository",
        &["crates/ebs-image/", "crates/ebs-testkit/", "crates/ebs-vm/", "xtask/"],
    ),
];

/// The subject of the tests of the file `path` of the workspace.
pub(super) fn of(path: &Path) -> Option<&'static Subject> {
    let path = path.to_str()?;
    let beginning = |subject: &Subject| {
        subject.paths.iter().filter(|beginning| path.starts_with(**beginning)).map(|beginning| beginning.len()).max()
    };
    SUBJECTS.iter().filter(|subject| beginning(subject).is_some()).max_by_key(|subject| beginning(subject))
}
