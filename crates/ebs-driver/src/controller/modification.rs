//! Merges requests that change one volume at about the same time into one ModifyVolume, because EC2 accepts the next
//! modification only after the previous one has completed, which can take hours.
//!
//! The first request opens a window and holds the volume's key. Later requests join the window unless they contradict
//! its changes. When the window closes, the operation carries out all changes. Until it ends, new changes get Aborted.
//!
//! A repeated request joins its own change, even after the window has closed. When all callers have left, the operation
//! waits, continues with the changes whose callers return, and drops the others.
//!
//! Decision: `docs/dev/decisions/0011-merge-modifications-of-one-volume.md`.

mod carry_out;
mod gathering;
mod merge;

use std::sync::Arc;

use ebs_cloud::{CloudErrorKind, Ec2, ModifySpec};
use ebs_ec2::{Gib, VolumeId};

use super::{ControllerError, ControllerService};
use crate::operation::{Key, OperationError};
use crate::rpc::Rpc;

use gathering::{Caller, Gathering};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Change {
    pub(super) rpc: Rpc,
    pub(super) spec: ModifySpec,
}

impl Change {
    fn is_growth(&self) -> bool {
        self.spec.size.is_some()
    }
}

/// Carries out the change together with others that arrive within the window. Returns the volume's new size.
pub(super) async fn run<E: Ec2>(
    service: &ControllerService<E>,
    volume: VolumeId,
    change: Change,
) -> Result<Gib, OperationError<ControllerError>> {
    let caller = Arc::new(Caller::default());
    let gathering = Gathering::new(change.clone(), &caller, service.options.modification_window);
    let window = gathering.window();
    let cloud = Arc::clone(&service.cloud);
    let (key, bound) = (Key::Volume(volume.clone()), change.rpc.timeout());
    let work = move |waiters| async move {
        let mut wanted = window.gathered(&waiters).await;
        while let Some(changes) = wanted {
            let (cloud, volume) = (&cloud, &volume);
            let work = |round| async move { Box::pin(carry_out::all(cloud, volume, &changes, &round)).await };
            let results = Box::pin(window.while_all_wait(&waiters, work)).await;
            if waiters.any() && !results.are_abandoned() {
                return Ok(results);
            }
            // If a caller returns, continue at once, without opening another window.
            wanted = window.returned(&waiters).await;
        }
        Err(abandoned(&volume))
    };
    let results = service.operations.run(key, gathering, bound, work).await?;
    results.result_of(&change).map_err(OperationError::Failed)
}

fn abandoned(volume: &VolumeId) -> ControllerError {
    let message = format!("modify volume {volume}: no caller waits for the result, so nothing was started");
    ControllerError::during(Rpc::ControllerModifyVolume)(CloudErrorKind::Abandoned.error(message))
}
