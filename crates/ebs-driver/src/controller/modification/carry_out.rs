use std::sync::Arc;

use ebs_cloud::{Cloud, CloudError, CloudErrorKind, Ec2, Sidecar};
use ebs_ec2::{Gib, VolumeId, Waiters};

use super::merge::merged;
use super::{Change, ControllerError};
use crate::rpc::Rpc;
use crate::status::IntoStatus;

#[derive(Clone)]
pub(super) struct Results(Arc<[(Change, ChangeResult)]>);

type ChangeResult = Result<Gib, Arc<ControllerError>>;

impl Results {
    /// Returns true when the work stopped before one of the changes because a caller had left.
    pub(super) fn are_abandoned(&self) -> bool {
        self.0.iter().any(|(_, result)| result.as_ref().is_err_and(|error| error.is_abandoned()))
    }

    pub(super) fn result_of(&self, change: &Change) -> ChangeResult {
        let own = self.0.iter().find(|(carried_out, _)| carried_out == change);
        own.expect("the results contain the change of every caller").1.clone()
    }
}

/// Carries out all changes with one ModifyVolume call. When EC2 rejects them together, tries them one by one,
/// expansions first, so that an invalid value of one request does not fail another request.
pub(super) async fn all<E: Ec2>(cloud: &Cloud<E>, volume: &VolumeId, changes: &[Change], waiters: &Waiters) -> Results {
    let spec = merged(changes).expect("contradicting changes were rejected before they joined");
    let together = cloud.volumes.modify(&sidecars(changes), volume, &spec, waiters).await.map(|volume| volume.size);
    let mut results = Vec::with_capacity(changes.len());
    match together {
        Err(error) if changes.len() > 1 && is_about_values(&error.kind) => {
            tracing::info!(name: "v3", %volume, error = %error, "EC2 rejected the combined changes, trying them one by one");
            let (growth, classes): (Vec<&Change>, Vec<&Change>) = changes.iter().partition(|change| change.is_growth());
            for change in growth.into_iter().chain(classes) {
                let sidecars = sidecars(std::slice::from_ref(change));
                let alone = cloud.volumes.modify(&sidecars, volume, &change.spec, waiters).await;
                results.push(result(change, alone.map(|volume| volume.size)));
            }
        }
        together => results.extend(changes.iter().map(|change| result(change, together.clone()))),
    }
    Results(results.into())
}

fn sidecars(changes: &[Change]) -> Vec<Sidecar> {
    let sender = |change: &Change| match change.rpc {
        Rpc::ModifyVolumeProperties => Sidecar::VolumeModifier,
        _ => Sidecar::Resizer,
    };
    let is_sender = |sidecar: &Sidecar| changes.iter().any(|change| sender(change) == *sidecar);
    [Sidecar::Resizer, Sidecar::VolumeModifier].into_iter().filter(is_sender).collect()
}

/// Returns true if EC2 rejected the requested values, and false if the volume's state prevents the change.
fn is_about_values(kind: &CloudErrorKind) -> bool {
    matches!(kind, CloudErrorKind::InvalidArgument | CloudErrorKind::OutOfRange | CloudErrorKind::LimitExceeded)
}

fn result(change: &Change, ended: Result<Gib, CloudError>) -> (Change, ChangeResult) {
    let result = ended.map_err(|error| Arc::new(ControllerError::during(change.rpc)(error)));
    (change.clone(), result)
}
