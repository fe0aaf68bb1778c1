//! How the kubelet interprets a driver's responses, for tests that check them.
//!
//! After a *final* code of NodeStageVolume, the kubelet never calls NodeUnstageVolume, and detaches the volume while it
//! is still mounted. After a final code of NodePublishVolume, it never calls NodeUnpublishVolume, and the volume stays
//! in use.

use std::error::Error;
use std::path::{Path, PathBuf};

use anyhow::Context;
use csi_proto::csi;
use csi_proto::csi::node_server::Node;
use tonic::{Request, Response, Status};

use crate::leftovers::mount_points;

/// The gRPC codes after which the kubelet assumes that a volume may be mounted: Canceled, DeadlineExceeded,
/// ResourceExhausted, Aborted and Unavailable (`isFinalError` in `pkg/volume/csi/csi_client.go` of Kubernetes).
const NOT_FINAL: [i32; 5] = [1, 4, 8, 10, 14];
const OK: i32 = 0;
const ALREADY_EXISTS: i32 = 6;

/// Returns whether the kubelet assumes after this code that NodeStageVolume has ended and left nothing behind.
#[must_use]
pub fn is_final(code: impl Into<i32>) -> bool {
    let number = code.into();
    number != OK && !NOT_FINAL.contains(&number)
}

/// Checks the response to a NodeStageVolume call against the mount at its staging path in this thread's mount
/// namespace. A status that the client created itself, because the connection broke, is not a response.
pub fn check_stage<T>(staging: &Path, answer: &Result<T, Status>) -> anyhow::Result<()> {
    check("NodeStageVolume", staging, answer)
}

/// Checks the response to a NodePublishVolume call against the mount at its target path, like [`check_stage`]. Accepts
/// AlreadyExists, because it refers to the mount of an earlier request. Nothing but the volume may be mounted there.
fn check_publish<T>(target: &Path, answer: &Result<T, Status>) -> anyhow::Result<()> {
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
        !(is_final(status.code()) && mount_points(&table).contains(&at)),
        "{rpc} failed with the final code {:?}, so the kubelet forgets the mount, but {} is mounted: {}",
        status.code(),
        at.display(),
        status.message()
    );
    Ok(())
}

/// Calls NodeStageVolume of a service in this mount namespace, and checks the response with [`check_stage`]. Tests must
/// call it instead of the service's own method. No other call may mount or unmount at the staging path concurrently.
pub async fn stage(
    node: &impl Node,
    request: csi::NodeStageVolumeRequest,
) -> Result<Response<csi::NodeStageVolumeResponse>, Status> {
    let staging = PathBuf::from(&request.staging_target_path);
    let answer = node.node_stage_volume(Request::new(request)).await;
    check_stage(&staging, &answer).expect("the kubelet does not forget a mount after this response");
    answer
}

/// Calls NodePublishVolume of a service in this mount namespace, as [`stage`] does, and checks the response with
/// [`check_publish`].
pub async fn publish(
    node: &impl Node,
    request: csi::NodePublishVolumeRequest,
) -> Result<Response<csi::NodePublishVolumeResponse>, Status> {
    let target = PathBuf::from(&request.target_path);
    let answer = node.node_publish_volume(Request::new(request)).await;
    check_publish(&target, &answer).expect("the kubelet does not forget a mount after this response");
    answer
}

/// Resolves the symbolic links in the path's directories, because the mount table shows the path without them.
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
    fn kubelet_check_rejects_a_final_code_only_if_path_is_mounted() {
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
