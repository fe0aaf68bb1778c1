//! A visit creates an exhibit, which is a disk that the driver must not format, asks the driver to stage it, and checks
//! that the disk has not changed.

use std::os::unix::fs::FileExt;
use std::path::Path;

use ebs_mounter::PROOF_BOUND;
use ebs_testkit::mount_namespace::{in_mount_namespace, unmount};
use rustix::fs::FallocateFlags;
use rustix::mount::MountFlags;
use tonic::Code;

use crate::exhibit::{Exhibit, Step, TIB};
use crate::exhibits;
use crate::node::Node;

/// The directories of the programs that make exhibits.
const PROGRAMS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Runs a program with the device as its last argument.
pub(crate) fn run(program: &str, args: &[&str], device: &Path) {
    let found = PROGRAMS.iter().map(|directory| Path::new(directory).join(program)).find(|path| path.exists());
    let found = found.unwrap_or_else(|| panic!("{program} is missing: run scripts/setup test"));
    #[expect(clippy::disallowed_methods, reason = "a fixture's own tool, by absolute path")]
    let mut command = std::process::Command::new(found);
    let output = command.args(args).arg(device).stdin(std::process::Stdio::null()).output().expect(program);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
}

/// Makes the exhibit on a node's disk.
pub(crate) async fn make(node: &Node, exhibit: &Exhibit) {
    let mut bytes = exhibit.bytes;
    for step in &exhibit.made {
        match step {
            Step::Run(program, args) => run(program, args, node.disk.path()),
            Step::Write(place, what) => node.disk.write_at(what, place.on(bytes)).expect("a write"),
            Step::Zero(place, length) => zero(node, place.on(bytes), *length),
            Step::GrowXfs(to) => {
                bytes = *to;
                grow_xfs(node, *to).await;
            }
        }
    }
}

/// Overwrites a range with zeros. Punches a hole when the range consists of whole sectors.
pub(crate) fn zero(node: &Node, from: u64, length: u64) {
    let device = std::fs::File::options().write(true).open(node.disk.path()).expect("the device");
    if from.is_multiple_of(512) && length.is_multiple_of(512) {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&device, hole, from, length).expect("a hole");
    } else {
        let zeros = vec![0; usize::try_from(length).expect("a short stretch")];
        device.write_all_at(&zeros, from).expect("a write");
    }
    device.sync_all().expect("a sync");
}

async fn grow_xfs(node: &Node, to: u64) {
    node.disk.grow(to).expect("a larger disk");
    let at = node.path("grown");
    std::fs::create_dir_all(&at).expect("a directory");
    rustix::mount::mount(node.disk.path(), &at, "xfs", MountFlags::empty(), None).expect("a mount");
    run("xfs_growfs", &[], &at);
    unmount(&at).await;
}

/// Makes an exhibit, asks the driver to stage it, and returns what went wrong.
async fn visit(exhibit: &Exhibit) -> Vec<String> {
    let node = Node::new(exhibit.bytes);
    make(&node, exhibit).await;
    let before = node.disk.fingerprint().expect("a fingerprint of the disk");
    let outcome = node.stage(node.stage_request(exhibit.asked, &[])).await;
    let mut wrong = Vec::new();
    if before != node.disk.fingerprint().expect("a fingerprint of the disk") {
        wrong.push("the disk has changed".to_owned());
    }
    if !node.mounts_at("staging").await.is_empty() {
        wrong.push("it was mounted".to_owned());
    }
    let state = std::fs::read_dir(node.path("state")).expect("the state directory");
    if state.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("format-")) {
        wrong.push("a record of a format stays behind".to_owned());
    }
    match &outcome {
        Err(status) if status.code() == Code::FailedPrecondition => {
            let unsaid = exhibit.told.iter().filter(|told| !told.is_said_in(status.message()));
            wrong.extend(unsaid.map(|told| format!("{told:?} is missing")));
            // Readers may stop after the first hint, so the message must not begin with how to wipe the disk.
            let (kept, wiped) = (status.message().find("to keep it"), status.message().find("wipe"));
            if kept.is_none() || kept > wiped {
                wrong.push("the advice to keep the data is not first".to_owned());
            }
        }
        _ => wrong.push("it was not refused".to_owned()),
    }
    wrong.iter().map(|problem| format!("{}: {problem}: {outcome:?}", exhibit.name)).collect()
}

/// Visits all exhibits of a room and reports all faults together.
fn room(exhibits: Vec<Exhibit>) {
    in_mount_namespace(move || async move {
        let mut wrong = Vec::new();
        for exhibit in &exhibits {
            wrong.extend(visit(exhibit).await);
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

/// Each disk contains a wiped, incomplete or unsupported file system, a partition table, a volume-manager or RAID
/// member, encryption, swap, data without a file system, or one byte at any position that the blank-disk check reads.
#[test]
fn no_disk_with_contents_is_formatted_mounted_or_changed() {
    std::thread::scope(|threads| {
        for first in [0, 1] {
            let rooms = exhibits::all().into_iter().skip(first).step_by(2);
            threads.spawn(move || rooms.for_each(|(_, exhibits)| room(exhibits)));
        }
    });
}

/// NodeStageVolume must prove that a disk is blank before the call times out.
#[test]
fn blank_disk_of_15_tib_is_proven_blank_within_the_timeout() {
    in_mount_namespace(|| async {
        let node = Node::new(15 * TIB);
        // A read-only mount writes nothing, so the test measures only the proof.
        let stage = node.stage(node.stage_request("xfs", &["ro"]));
        let outcome = tokio::time::timeout(PROOF_BOUND / 10, stage).await.expect("a proof in time");
        let said = outcome.expect_err("a refusal").message().to_owned();
        assert!(said.contains("blank") && said.contains("read-only"), "{said}");
    });
}
