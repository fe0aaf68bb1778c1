//! Why a volume is not staged, and which codes that may have.
//!
//! The kubelet takes most codes of NodeStageVolume as final (`isFinalError` in its `csi_client.go`): it then records that
//! nothing of the volume is mounted, never calls NodeUnstageVolume, and the volume is detached under whatever is mounted.
//! So a [`StageError`] means something final only together with a [`NothingMounted`], and only a look at the mount table
//! after the last step makes one. The steps of a stage need not know about it (`decisions.md` D-16).

use ebs_mounter::{MountTable, NodePath};

use super::error::NodeError;
use crate::status::{IntoStatus, Meaning, Unsettled};

/// A NodeStageVolume that failed.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct StageError {
    #[source]
    error: NodeError,
    left: Left,
}

/// What the stage has left, or found, at the staging path.
#[derive(Debug)]
enum Left {
    /// Nothing: the error means what it means.
    Nothing(NothingMounted),
    /// Something is mounted there, or nobody can tell.
    Mount(Unsettled),
}

/// Proof that nothing is mounted at the staging path.
#[derive(Debug)]
struct NothingMounted(());

impl NothingMounted {
    /// Looks at the mount table, hidden mounts included. A request without a valid path names no place for a mount.
    async fn at(staging: Option<&NodePath>) -> Option<Self> {
        if let Some(path) = staging {
            let at = path.in_table().await.ok()?;
            let table = MountTable::read().await.ok()?;
            if table.depth(&at) > 0 {
                return None;
            }
        }
        Some(Self(()))
    }
}

impl StageError {
    /// Looks at the staging path and decides what the error may mean to the caller. Nothing may be mounted by the stage
    /// afterwards.
    pub(super) async fn after_look(error: NodeError, staging: Option<&NodePath>) -> Self {
        let left = match NothingMounted::at(staging).await {
            Some(proof) => Left::Nothing(proof),
            None if error.meaning() == Meaning::InProgress => Left::Mount(Unsettled::InProgress),
            None => Left::Mount(Unsettled::Unavailable),
        };
        Self { error, left }
    }
}

impl IntoStatus for StageError {
    fn meaning(&self) -> Meaning {
        match self.left {
            Left::Nothing(NothingMounted(())) => self.error.meaning(),
            Left::Mount(unsettled) => unsettled.into(),
        }
    }

    fn next_step(&self) -> Option<String> {
        let known = self.error.next_step();
        match self.left {
            Left::Nothing(_) => known,
            Left::Mount(_) => {
                known.or_else(|| Some("call again with the same request, or unstage the volume".to_owned()))
            }
        }
    }

    fn is_abandoned(&self) -> bool {
        self.error.is_abandoned()
    }
}
