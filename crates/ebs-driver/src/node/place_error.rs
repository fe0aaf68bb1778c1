//! Errors of NodeStageVolume and NodePublishVolume, and the codes that they may have.
//!
//! The kubelet treats most codes of these calls as final (`isFinalError` in its `csi_client.go`). It then records that
//! the volume is not mounted at the path, and never unmounts it there. EC2 would then detach a volume that is still
//! staged, and a published mount would keep NodeUnstageVolume from ever succeeding.
//!
//! A [`PlaceError`] has a final code only if the mount table after the last step proves that no mount is left.

use ebs_mounter::{MountTable, NodePath};

use super::LinuxNode;
use super::error::{Cause, NodeError, NodeRefusal};
use super::owner::{self, Owner};
use super::request::Handle;
use crate::status::{IntoStatus, Meaning, into_status};

/// The error of a failed NodeStageVolume or NodePublishVolume call.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct PlaceError {
    #[source]
    error: NodeError,
    /// The call that removes a mount that may remain at the path. `None` if the volume is proven not to be mounted
    /// there, in which case the error keeps its code.
    undo: Option<&'static str>,
}

/// Returns true when the mount table, hidden mounts included, proves that nothing is mounted at the path.
async fn is_free(path: Option<&NodePath>) -> bool {
    let Some(path) = path else { return true };
    let (Ok(at), Ok(table)) = (path.in_table().await, MountTable::read().await) else { return false };
    table.depth(&at) == 0
}

/// Returns true when the mount table proves that the only mount at the target does not belong to the volume.
async fn is_foreign(node: &LinuxNode, volume: Option<&Handle>, target: Option<&NodePath>) -> bool {
    let (Some(volume), Some(target)) = (volume, target) else { return false };
    let Ok((table, at)) = owner::topmost(target).await else { return false };
    match table.topmost(&at) {
        Some(entry) if table.depth(&at) == 1 => {
            matches!(owner::of_handle(&node.mounter, entry, volume).await, Ok(Owner::Other(_)))
        }
        _ => false,
    }
}

impl PlaceError {
    /// Decides which code the error of NodeStageVolume may have. The operation must not mount anything afterwards.
    pub(super) async fn of_stage(error: NodeError, staging: Option<&NodePath>) -> Self {
        let undo = (!is_free(staging).await).then_some("unstage the volume");
        Self { error, undo }
    }

    /// Decides which code the error of NodePublishVolume may have. AlreadyExists keeps its code, because the mount
    /// belongs to another request, which the kubelet has recorded.
    pub(super) async fn of_publish(
        node: &LinuxNode,
        error: NodeError,
        volume: Option<&Handle>,
        target: Option<&NodePath>,
    ) -> Self {
        let may_forget = match &error {
            NodeError::Work { cause: Cause::Refused(NodeRefusal::MountedDifferently { .. }), .. } => true,
            NodeError::Work { cause: Cause::Refused(NodeRefusal::OtherMount { .. }), .. } => {
                is_foreign(node, volume, target).await
            }
            _ => is_free(target).await,
        };
        Self { error, undo: (!may_forget).then_some("unpublish the volume") }
    }
}

into_status!(PlaceError);

impl IntoStatus for PlaceError {
    fn meaning(&self) -> Meaning {
        match self.error.meaning() {
            meaning if self.undo.is_none() || meaning == Meaning::InProgress => meaning,
            _ => Meaning::Unavailable,
        }
    }

    fn next_step(&self) -> Option<String> {
        let known = self.error.next_step();
        known.or_else(|| self.undo.map(|undo| format!("call again with the same request, or {undo}")))
    }

    fn is_abandoned(&self) -> bool {
        self.error.is_abandoned()
    }
}
