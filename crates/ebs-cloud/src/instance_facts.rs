//! What the labels of a node tell of its instance (`ebs-cloud.md` 17).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ebs_calls::{RateLimited, pages};
use ebs_ec2::{Ec2, Instance, Instances, MAX_FILTER_VALUES};
use ebs_types::{InstanceId, VolumeId};

use crate::call::read;
use crate::error::CloudError;

/// What takes attachment slots of an instance besides the driver's volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceFacts {
    /// Network interfaces, at least 1.
    pub network_interfaces: u32,
    /// Volumes that are neither the root nor managed by a CSI driver.
    pub other_volumes: u32,
}

impl InstanceFacts {
    /// From a description; `managed` are the volumes of the driver's persistent volumes.
    fn of(instance: &Instance, managed: &BTreeSet<VolumeId>) -> Self {
        let is_managed = |volume: &Option<VolumeId>| volume.as_ref().is_some_and(|v| managed.contains(v));
        let others = instance.devices.iter().filter(|d| !is_managed(&d.volume)).count();
        // One of the rest is the root.
        let other_volumes = u32::try_from(others.saturating_sub(1)).unwrap_or(u32::MAX);
        Self { network_interfaces: instance.network_interfaces.max(1), other_volumes }
    }
}

/// Describes instances, as many in a call as EC2 takes.
pub(crate) async fn describe<E: Ec2>(
    limited: &Arc<RateLimited<E>>,
    ids: &BTreeSet<InstanceId>,
    managed: &BTreeSet<VolumeId>,
) -> Result<BTreeMap<InstanceId, InstanceFacts>, CloudError> {
    let ids: Vec<InstanceId> = ids.iter().cloned().collect();
    let mut facts = BTreeMap::new();
    for chunk in ids.chunks(MAX_FILTER_VALUES) {
        let ec2 = &limited.for_background_read();
        let get = |page| async move { ec2.describe_instances(chunk, &page).await };
        let found = read(ec2, "describe the nodes' instances", || pages::all(&get)).await?;
        facts.extend(found.iter().map(|instance| (instance.id.clone(), InstanceFacts::of(instance, managed))));
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use ebs_ec2::{AttachmentState, BlockDevice};
    use ebs_types::DeviceName;

    use super::*;

    fn volume(id: &str) -> VolumeId {
        VolumeId::parse(id).unwrap()
    }

    fn instance(volumes: &[&str], network_interfaces: u32) -> Instance {
        let device = |id: &&str| BlockDevice {
            device: DeviceName::new("/dev/xvda"),
            volume: Some(volume(id)),
            state: Some(AttachmentState::Attached),
            card: None,
            attach_time: None,
        };
        Instance {
            id: InstanceId::parse("i-1").unwrap(),
            state: "running".to_owned(),
            instance_type: "m5.large".to_owned(),
            zone: None,
            root_device: None,
            devices: volumes.iter().map(device).collect(),
            network_interfaces,
        }
    }

    /// The labels' facts are network interfaces, at least one, and volumes without the driver's and the root.
    ///
    /// Rule: ebs-cloud.md 17
    #[test]
    fn the_other_volumes_are_the_mappings_without_the_drivers_and_the_root() {
        let managed = BTreeSet::from([volume("vol-1"), volume("vol-2"), volume("vol-9")]);
        for (volumes, interfaces, other, counted) in [
            (&["vol-0", "vol-1", "vol-2", "vol-3"][..], 3, 1, 3),
            (&["vol-0"], 1, 0, 1),
            (&[], 0, 0, 1),
            (&["vol-1"], 2, 0, 2),
        ] {
            let facts = InstanceFacts::of(&instance(volumes, interfaces), &managed);
            assert_eq!((facts.other_volumes, facts.network_interfaces), (other, counted), "{volumes:?}");
        }
    }
}
