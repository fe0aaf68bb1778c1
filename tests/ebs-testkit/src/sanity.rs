//! Runs csi-sanity, the conformance suite of the CSI community, against a running driver.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::process::{Process, ProcessSpec};

/// The environment variable with the path of the csi-sanity program.
pub const PROGRAM: &str = "EBS_TEST_CSI_SANITY";

/// The specs to run. Every spec is in exactly one of the last four parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Whole,
    /// CreateVolume.
    Creation,
    /// Specs of the controller's volume calls other than CreateVolume, mostly for attachments.
    Attachment,
    /// Specs of the node service.
    Node,
    /// Snapshots, expansion, modification and identity.
    Other,
}

const CONTROLLER_SPECS: &str = "Controller Service";
const NODE_SPECS: &str = "Node Service";
/// The pattern that selects CreateVolume among the controller's specs.
const CREATION_SPECS: &str = "CreateVolume";

impl Part {
    /// Returns whether the part includes this spec, named as in [`SanityResult`].
    #[must_use]
    pub fn has(self, spec: &str) -> bool {
        match self {
            Self::Whole => true,
            Self::Creation => spec.starts_with(CONTROLLER_SPECS) && spec.contains(CREATION_SPECS),
            Self::Attachment => spec.starts_with(CONTROLLER_SPECS) && !spec.contains(CREATION_SPECS),
            Self::Node => spec.starts_with(NODE_SPECS),
            Self::Other => ![CONTROLLER_SPECS, NODE_SPECS].iter().any(|specs| spec.starts_with(specs)),
        }
    }

    fn flags(self) -> Vec<(&'static str, String)> {
        let specs = |names: &str| format!(r"CSI Driver Test Suite ({names})");
        match self {
            Self::Whole => Vec::new(),
            Self::Creation => vec![("ginkgo.focus", specs(&format!("{CONTROLLER_SPECS}.*{CREATION_SPECS}")))],
            Self::Attachment => {
                vec![("ginkgo.focus", specs(CONTROLLER_SPECS)), ("ginkgo.skip", CREATION_SPECS.to_owned())]
            }
            Self::Node => vec![("ginkgo.focus", specs(NODE_SPECS))],
            Self::Other => vec![("ginkgo.skip", specs(&format!("{CONTROLLER_SPECS}|{NODE_SPECS}")))],
        }
    }
}

#[derive(Debug, Clone)]
pub struct SanitySpec {
    pub socket: PathBuf,
    /// A directory for mounts, parameters and reports.
    pub dir: PathBuf,
    pub volume_bytes: u64,
    pub expanded_bytes: u64,
    /// The kind of access: `mount` or `block`.
    pub access: &'static str,
    pub part: Part,
    /// Whether the ids of missing volumes and nodes look like EC2 ids. Otherwise they are words.
    pub ec2_ids: bool,
    /// Whether to attach as many volumes as the node permits, and one more.
    pub attach_limit: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SanityResult {
    pub passed: Vec<String>,
    /// Names of the failed specs, with the reasons.
    pub failed: BTreeMap<String, String>,
    /// Names of the skipped specs, with the reasons.
    pub skipped: BTreeMap<String, String>,
}

/// Part of every secret that the suite sends. No log of the driver may contain it.
pub const SECRET: &str = "made-up-secret-of-csi-sanity";

/// The calls that may carry secrets, by their names in csi-sanity's file.
const WITH_SECRETS: [&str; 13] = [
    "CreateVolumeSecret",
    "DeleteVolumeSecret",
    "ControllerPublishVolumeSecret",
    "ControllerUnpublishVolumeSecret",
    "ControllerValidateVolumeCapabilitiesSecret",
    "NodeStageVolumeSecret",
    "NodePublishVolumeSecret",
    "CreateSnapshotSecret",
    "DeleteSnapshotSecret",
    "ControllerExpandVolumeSecret",
    "ControllerModifyVolumeSecret",
    "ListSnapshotsSecret",
    "GetSnapshotSecret",
];

pub fn program() -> anyhow::Result<PathBuf> {
    crate::process::program(PROGRAM)
}

/// Runs the suite for at most `bound`. Reports failed specs in the result, not as an error.
pub async fn run(program: &Path, spec: &SanitySpec, bound: Duration) -> anyhow::Result<SanityResult> {
    std::fs::create_dir_all(&spec.dir).context("make the directory of csi-sanity")?;
    let report = spec.dir.join("report.json");
    let flags = flags(spec, &report)?;
    let mut process = Process::spawn(ProcessSpec {
        name: "csi-sanity".to_owned(),
        program: program.to_owned(),
        args: flags.iter().map(|(name, value)| OsString::from(format!("-{name}={value}"))).collect(),
        env: BTreeMap::new(),
        log: spec.dir.join("csi-sanity.log"),
    })?;
    let status = process.wait(bound).await.with_context(|| process.log_tail(40))?;
    let text = std::fs::read(&report)
        .with_context(|| format!("csi-sanity exited with {status} and without a report:\n{}", process.log_tail(40)))?;
    let mut result = parse(&text)?;
    // The suite also reports the specs of other parts as skipped.
    result.skipped.retain(|name, _| spec.part.has(name));
    if status.success() != result.failed.is_empty() {
        bail!("csi-sanity exited with {status}, but reports {} failed specs", result.failed.len());
    }
    Ok(result)
}

/// Returns the flags, including all optional ones that apply to an EBS driver.
fn flags(spec: &SanitySpec, report: &Path) -> anyhow::Result<Vec<(&'static str, String)>> {
    let file = |name: &str, lines: &[String]| {
        let path = spec.dir.join(name);
        std::fs::write(&path, lines.concat()).with_context(|| format!("write {}", path.display()))?;
        anyhow::Ok(path.display().to_string())
    };
    let parameters = [("type", "gp3"), ("iops", "3000"), ("throughput", "130"), ("tagSpecification_1", "suite=sanity")];
    let mutable = [("throughput", "200"), ("tagSpecification_1", "suite=sanity-modified")];
    let entry = |(key, value): &(&str, &str)| format!("{key}: \"{value}\"\n");
    let secrets = WITH_SECRETS.map(|call| format!("{call}: {{password: {SECRET}}}\n"));
    let mut flags = vec![
        ("csi.endpoint", format!("unix://{}", spec.socket.display())),
        ("csi.mountdir", spec.dir.join("target").display().to_string()),
        ("csi.stagingdir", spec.dir.join("staging").display().to_string()),
        ("csi.testvolumesize", spec.volume_bytes.to_string()),
        ("csi.testvolumeexpandsize", spec.expanded_bytes.to_string()),
        ("csi.testvolumeparameters", file("parameters.yaml", &parameters.each_ref().map(entry))?),
        ("csi.testvolumemutableparameters", file("mutable.yaml", &mutable.each_ref().map(entry))?),
        ("csi.testsnapshotparameters", file("snapshot.yaml", &parameters[3..].iter().map(entry).collect::<Vec<_>>())?),
        ("csi.secrets", file("secrets.yaml", &secrets)?),
        ("csi.testvolumeaccesstype", spec.access.to_owned()),
        ("csi.testnodevolumeattachlimit", spec.attach_limit.to_string()),
        ("ec2-ids", spec.ec2_ids.to_string()),
        ("ginkgo.json-report", report.display().to_string()),
        ("ginkgo.no-color", "true".to_owned()),
        ("ginkgo.v", "true".to_owned()),
    ];
    flags.extend(spec.part.flags());
    Ok(flags)
}

fn parse(report: &[u8]) -> anyhow::Result<SanityResult> {
    let suites: Vec<Value> = serde_json::from_slice(report).context("parse csi-sanity's report")?;
    let mut result = SanityResult { passed: Vec::new(), failed: BTreeMap::new(), skipped: BTreeMap::new() };
    for spec in suites.iter().filter_map(|suite| suite["SpecReports"].as_array()).flatten() {
        let text = |field: &str| spec[field].as_str().unwrap_or_default();
        let kind = text("LeafNodeType");
        let containers = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let last = Some(text("LeafNodeText")).filter(|text| !text.is_empty()).unwrap_or(kind);
        let name = containers.chain([last]).collect::<Vec<_>>().join(" / ");
        let message = spec["Failure"]["Message"].as_str().unwrap_or_default().to_owned();
        match text("State") {
            "passed" if kind == "It" => result.passed.push(name),
            "passed" => {}
            "skipped" => drop(result.skipped.insert(name, message)),
            "pending" => drop(result.skipped.insert(name, "pending in csi-sanity itself".to_owned())),
            other => drop(result.failed.insert(name, format!("{other}: {message}"))),
        }
    }
    Ok(result)
}
