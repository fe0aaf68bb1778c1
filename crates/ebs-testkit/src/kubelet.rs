//! How the kubelet reads a driver's answers, for tests that must hold against it.
//!
//! After a *final* code of NodeStageVolume the kubelet records that nothing of the volume is mounted. It then never calls
//! NodeUnstageVolume, and the volume is detached under whatever is mounted at its staging path. The same code of NodePublishVolume
//! makes it forget the mount at the target path: it never calls NodeUnpublishVolume, and the volume stays in use.

use std::error::Error;
use std::path::{Path, PathBuf};

use anyhow::Context;
use csi_proto::csi;
use csi_proto::csi::node_server::Node;
use tonic::{Request, Response, Status};

use crate::leftovers::mount_points;

/// The numbers of the gRPC codes after which the kubelet takes into account that a NodeStageVolume may have mounted something:
/// Canceled, DeadlineExceeded, ResourceExhausted, Aborted and Unavailable. The list is that of `isFinalError` in
/// `pkg/volume/csi/csi_client.go` of Kubernetes.
const NOT_FINAL: [i32; 5] = [1, 4, 8, 10, 14];
/// The number of OK.
const OK: i32 = 0;
/// The number of AlreadyExists.
const ALREADY_EXISTS: i32 = 6;

/// True when the kubelet takes this code as the end of a NodeStageVolume that has left nothing behind.
#[must_use]
pub fn is_final(code: impl Into<i32>) -> bool {
    let number = code.into();
    number != OK && !NOT_FINAL.contains(&number)
}

/// True when the kubelet forgets a mount after this answer of NodeStageVolume.
#[must_use]
pub fn forgets_mount(is_mounted: bool, code: impl Into<i32>) -> bool {
    is_mounted && is_final(code)
}

/// Checks the answer of a NodeStageVolume against what is mounted at its staging path in this thread's mount namespace.
/// A path that is no absolute path has no mount. A status that the client made itself, because the connection broke, is no
/// answer.
///
/// # Errors
/// The kubelet forgets a mount after this answer, or the mount table cannot be read.
pub fn check_stage<T>(staging: &Path, answer: &Result<T, Status>) -> anyhow::Result<()> {
    check("NodeStageVolume", staging, answer)
}

/// Checks the answer of a NodePublishVolume against what is mounted at its target path, as [`check_stage`] does. AlreadyExists is
/// the answer to another request than the mount was made for. The target must show nothing that is not the volume's.
///
/// # Errors
/// The kubelet forgets a mount after this answer, or the mount table cannot be read.
pub fn check_publish<T>(target: &Path, answer: &Result<T, Status>) -> anyhow::Result<()> {
    match answer {
        Err(status) if i32::from(status.code()) == ALREADY_EXISTS => Ok(()),
        answer => check("NodePublishVolume", target, answer),
    }
}

fn check<T>(rpc: &str, path: &Path, answer: &Result<T, Status>) -> anyhow::Result<()> {
    let Some(status) = answer.as_ref().err().filter(|status| status.source().is_none()) else { return Ok(()) };
    let table = std::fs::read("/proc/thread-self/mountinfo").context("read the mount table")?;
    let at = as_in_table(path);
    anyhow::ensure!(
        !forgets_mount(mount_points(&table).contains(&at), status.code()),
        "{rpc} failed with {:?}, after which the kubelet forgets the mount, while {} is a mount: {}",
        status.code(),
        at.display(),
        status.message()
    );
    Ok(())
}

/// Calls NodeStageVolume of a service in this mount namespace, and checks its answer with [`check_stage`]. Tests call it in
/// place of the service's own method. No other call may mount or unmount at the staging path meanwhile.
///
/// # Errors
/// The service's status.
///
/// # Panics
/// When the kubelet would forget a mount after the answer.
pub async fn stage(
    node: &impl Node,
    request: csi::NodeStageVolumeRequest,
) -> Result<Response<csi::NodeStageVolumeResponse>, Status> {
    let staging = PathBuf::from(&request.staging_target_path);
    let answer = node.node_stage_volume(Request::new(request)).await;
    check_stage(&staging, &answer).expect("an answer after which the kubelet knows of every mount");
    answer
}

/// Calls NodePublishVolume of a service in this mount namespace, and checks its answer with [`check_publish`]. Tests call it in
/// place of the service's own method. No other call may mount or unmount at the target path meanwhile.
///
/// # Errors
/// The service's status.
///
/// # Panics
/// When the kubelet would forget a mount after the answer.
pub async fn publish(
    node: &impl Node,
    request: csi::NodePublishVolumeRequest,
) -> Result<Response<csi::NodePublishVolumeResponse>, Status> {
    let target = PathBuf::from(&request.target_path);
    let answer = node.node_publish_volume(Request::new(request)).await;
    check_publish(&target, &answer).expect("an answer after which the kubelet knows of every mount");
    answer
}

/// The path with the symbolic links of its directories followed, as the mount table spells it.
fn as_in_table(path: &Path) -> PathBuf {
    let resolved = path.parent().and_then(|parent| parent.canonicalize().ok());
    match (resolved, path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount_namespace::in_mount_namespace;

    #[test]
    fn a_code_is_final_unless_the_kubelet_lists_it() {
        let passing = [
            Status::cancelled(""),
            Status::deadline_exceeded(""),
            Status::resource_exhausted(""),
            Status::aborted(""),
            Status::unavailable(""),
        ];
        for code in passing.map(|status| status.code()) {
            assert!(!is_final(code) && !forgets_mount(true, code), "{code:?}");
        }
        let last = [
            Status::unknown(""),
            Status::invalid_argument(""),
            Status::not_found(""),
            Status::already_exists(""),
            Status::permission_denied(""),
            Status::failed_precondition(""),
            Status::out_of_range(""),
            Status::unimplemented(""),
            Status::internal(""),
            Status::data_loss(""),
            Status::unauthenticated(""),
        ];
        for code in last.map(|status| status.code()) {
            assert!(is_final(code) && forgets_mount(true, code) && !forgets_mount(false, code), "{code:?}");
        }
        assert!(!is_final(OK) && !forgets_mount(true, OK));
    }

    #[test]
    fn a_final_code_is_refused_only_where_something_is_mounted() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path(), &link).unwrap();
        let at = directory.path().join("staging");
        std::fs::create_dir(&at).unwrap();
        in_mount_namespace(move || async move {
            let internal = Err::<(), _>(Status::internal("on purpose"));
            check_stage(&at, &internal).unwrap();
            rustix::mount::mount("none", &at, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
            for path in [&at, &link.join("staging")] {
                let error = check_stage(path, &internal).unwrap_err().to_string();
                assert!(error.contains("Internal") && error.contains("on purpose"), "{error}");
            }
            check_stage(&at, &Err::<(), _>(Status::aborted("later"))).unwrap();
            let broken = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
            check_stage(&at, &Err::<(), _>(Status::from_error(broken.into()))).unwrap();
            check_stage(&at, &Ok(())).unwrap();
            check_stage(Path::new("relative"), &internal).unwrap();
            check_publish(&at, &internal).unwrap_err();
            check_publish(&at, &Err::<(), _>(Status::already_exists("another request"))).unwrap();
            check_publish(&at, &Ok(())).unwrap();
        });
    }
}
