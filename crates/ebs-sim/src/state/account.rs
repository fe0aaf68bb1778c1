//! The account: its region, zones and instances, and the limits of a run's configuration.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use ebs_types::VolumeType;
use serde::{Deserialize, Serialize};

use crate::api::{ACCOUNT_ID, SimProperties};
use crate::config::{BurntToken, EngineConfig, Timing, ZoneConfig};

use super::ids::Kind;
use super::instances::{Instance, InstancePhase};
use super::model::{Attachment, AttachmentPhase, Device, Volume, VolumePhase};
use super::volumes::new_volume;
use super::{Policy, Sim};

/// The device name of root volumes.
pub(super) const ROOT_DEVICE: &str = "/dev/xvda";

/// Region, zones and account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Account {
    pub(super) id: String,
    pub(super) region: String,
    pub(super) zones: Vec<ZoneConfig>,
}

impl Account {
    pub(super) fn new(config: &EngineConfig) -> Self {
        Self { id: ACCOUNT_ID.to_owned(), region: config.region.clone(), zones: config.zones.clone() }
    }

    pub(super) fn zone_named(&self, name: &str) -> Option<&ZoneConfig> {
        self.zones.iter().find(|z| z.name == name)
    }

    pub(super) fn zone_with_id(&self, id: &str) -> Option<&ZoneConfig> {
        self.zones.iter().find(|z| z.id == id)
    }
}

impl Policy {
    pub(super) fn of(config: &EngineConfig) -> Self {
        let realistic = config.timing == Timing::Realistic;
        Self {
            max_volumes: config.max_volumes,
            max_snapshots: config.max_snapshots,
            account: config.account.clone(),
            snapshot_interval: config.snapshot_interval.or(realistic.then_some(Duration::from_secs(15))),
            modifications_per_day: config.modifications_per_day.or(realistic.then_some(4)),
            burnt_token_repeats_reply: config.burnt_token == BurntToken::OldReply,
        }
    }
}

impl Sim {
    /// Starts the two instances: the machine's own, and one in another zone that has no devices here.
    pub(super) fn launch(&mut self, config: &EngineConfig, now: SystemTime) {
        for (zone, local) in [(&config.zone, true), (&config.second_zone, false)] {
            let zone_id = self.account.zone_named(zone).map(|z| z.id.clone()).unwrap_or_default();
            let instance = Instance {
                id: self.ids.new_id(Kind::Instance),
                instance_type: config.instance_type.clone(),
                zone: zone.clone(),
                zone_id: zone_id.clone(),
                reservation_id: format!("r-0{}", self.ids.hex()),
                image_id: "ami-00000000000000000".to_owned(),
                interfaces: vec![self.new_interface()],
                launch_time: now,
                root_device: ROOT_DEVICE.to_owned(),
                root_volume: self.ids.new_id(Kind::Volume),
                tags: BTreeMap::new(),
                phase: InstancePhase::Running,
                protected: false,
                stop_protected: false,
                local,
            };
            let root = root_volume(&instance, now);
            self.volumes.insert(root.id.clone(), root);
            self.instances.push(instance);
        }
    }
}

fn root_volume(instance: &Instance, now: SystemTime) -> Volume {
    let (iops, throughput) = (Some(3000), Some(125));
    let shape = SimProperties { size_gib: 8, volume_type: VolumeType::Gp3, iops, throughput, multi_attach: false };
    let zone = ZoneConfig { name: instance.zone.clone(), id: instance.zone_id.clone(), zone_type: String::new() };
    Volume {
        id: instance.root_volume.clone(),
        phase: VolumePhase::Ready,
        attachments: vec![Attachment {
            phase: AttachmentPhase::Attached,
            delete_on_termination: true,
            backing: Device::None,
            ..Attachment::new(instance, &instance.root_device, now, now)
        }],
        ..new_volume(shape, &zone, now, now)
    }
}
