//! Errors of stage and publish, and the codes that they may have.
//!
//! The kubelet takes most codes of NodeStageVolume and NodePublishVolume as final (`isFinalError` in its
//! `csi_client.go`). It then records that nothing of the volume is mounted at the path, and never unmounts it. After a
//! stage, the volume is detached under the mount. After a publish, the mount keeps the volume in use, so that no
//! unstage succeeds.
//!
//! So a [`PlaceError`] may have a final code only with a proof, and only the mount table after the last step gives this
//! proof. The steps of a stage or publish need not know about it.

use ebs_mounter::{MountTable, NodePath};

use super::LinuxNode;
use super::error::{Cause, NodeError, NodeRefusal};
use super::owner::{self, Owner};
use super::request::Handle;
use crate::status::{IntoStatus, Meaning, Unsettled, into_status};

/// A failed NodeStageVolume or NodePublishVolume.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct PlaceError {
    #[source]
    error: NodeError,
    left: Left,
}

/// The mount that remains at the path after the call.
#[derive(Debug)]
enum Left {
    /// Nothing that the kubelet must remember, so that the error keeps its code.
    Nothing(NothingToForget),
    /// Something is mounted there, or the mount table cannot be read.
    Mount {
        unsettled: Unsettled,
        /// The call that removes the mount.
        undo: &'static str,
    },
}

/// Proof that the kubelet may record that nothing of the volume is mounted at the path.
#[derive(Debug)]
struct NothingToForget(());

impl NothingToForget {
    /// Reads the mount table, hidden mounts included. A request without a valid path names no place for a mount.
    async fn at(path: Option<&NodePath>) -> Option<Self> {
        if let Some(path) = path {
            let at = path.in_table().await.ok()?;
            let table = MountTable::read().await.ok()?;
            if table.depth(&at) > 0 {
                return None;
            }
        }
        Some(Self(()))
    }

    /// Proves that the only mount at the target does not belong to the volume.
    async fn over_foreign(node: &LinuxNode, volume: Option<&Handle>, target: Option<&NodePath>) -> Option<Self> {
        let (volume, (table, at)) = (volume?, owner::topmost(target?).await.ok()?);
        let entry = table.topmost(&at).filter(|_| table.depth(&at) == 1)?;
        match owner::of_handle(&node.mounter, entry, volume).await {
            Ok(Owner::Other(_)) => Some(Self(())),
            Ok(Owner::Volume | Owner::Silent | Owner::Vanished) | Err(_) => None,
        }
    }
}

impl PlaceError {
    /// Reads the mounts at the staging path and decides which code the error of a NodeStageVolume may have. The stage
    /// must not mount anything afterwards.
    pub(super) async fn of_stage(error: NodeError, staging: Option<&NodePath>) -> Self {
        let proof = NothingToForget::at(staging).await;
        Self::new(error, proof, "unstage the volume")
    }

    /// Does the same for a NodePublishVolume and its target path. AlreadyExists keeps its code: the mount was made for
    /// another request, which the kubelet has recorded.
    pub(super) async fn of_publish(
        node: &LinuxNode,
        error: NodeError,
        volume: Option<&Handle>,
        target: Option<&NodePath>,
    ) -> Self {
        let proof = match &error {
            NodeError::Work { cause: Cause::Refused(NodeRefusal::MountedDifferently { .. }), .. } => {
                Some(NothingToForget(()))
            }
            NodeError::Work { cause: Cause::Refused(NodeRefusal::OtherMount { .. }), .. } => {
                NothingToForget::over_foreign(node, volume, target).await
            }
            _ => NothingToForget::at(target).await,
        };
        Self::new(error, proof, "unpublish the volume")
    }

    fn new(error: NodeError, proof: Option<NothingToForget>, undo: &'static str) -> Self {
        let left = match proof {
            Some(proof) => Left::Nothing(proof),
            None if error.meaning() == Meaning::InProgress => Left::Mount { unsettled: Unsettled::InProgress, undo },
            None => Left::Mount { unsettled: Unsettled::Unavailable, undo },
        };
        Self { error, left }
    }
}

into_status!(PlaceError);

impl IntoStatus for PlaceError {
    fn meaning(&self) -> Meaning {
        match self.left {
            Left::Nothing(NothingToForget(())) => self.error.meaning(),
            Left::Mount { unsettled, .. } => unsettled.into(),
        }
    }

    fn next_step(&self) -> Option<String> {
        let known = self.error.next_step();
        match self.left {
            Left::Nothing(_) => known,
            Left::Mount { undo, .. } => known.or_else(|| Some(format!("call again with the same request, or {undo}"))),
        }
    }

    fn is_abandoned(&self) -> bool {
        self.error.is_abandoned()
    }
}
