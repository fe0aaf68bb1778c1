//! Computes the labels of a node.

use std::collections::HashSet;

use ebs_ec2::{Instance, VolumeId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Values {
    pub(super) interfaces: String,
    pub(super) volumes: String,
}

impl Values {
    pub(super) fn labels(&self) -> [Option<String>; 2] {
        [Some(self.interfaces.clone()), Some(self.volumes.clone())]
    }
}

/// The parts of an EC2 instance that the labels count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Described {
    interfaces: u32,
    /// The attached volumes except the root volume.
    volumes: Vec<VolumeId>,
}

impl Described {
    /// Reads the counted parts of an instance, or returns `None` if it is terminated or about to be.
    pub(super) fn of(instance: &Instance) -> Option<Self> {
        if matches!(instance.state.as_str(), "shutting-down" | "terminated") {
            return None;
        }
        let others = instance.devices.iter().filter(|device| instance.root_device.as_ref() != Some(&device.device));
        let volumes = others.filter_map(|device| device.volume.clone()).collect();
        Some(Self { interfaces: instance.network_interfaces.max(1), volumes })
    }

    /// Returns the labels. Omits the volumes of PersistentVolumes, because the driver attaches and detaches them.
    pub(super) fn values(&self, persistent: &HashSet<VolumeId>) -> Values {
        let others = self.volumes.iter().filter(|volume| !persistent.contains(*volume)).count();
        Values { interfaces: self.interfaces.to_string(), volumes: others.to_string() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ebs_ec2::{BlockDevice, DeviceName, InstanceId};

    use super::*;

    fn volume(id: &str) -> VolumeId {
        VolumeId::parse(id).unwrap()
    }

    /// Returns a running instance with three network interfaces.
    pub(crate) fn instance(root: Option<&str>, devices: &[(&str, Option<&str>)]) -> Instance {
        let name = |name: &str| DeviceName::new(name);
        Instance {
            id: InstanceId::parse("i-0abc").unwrap(),
            state: "running".to_owned(),
            instance_type: "m5.large".to_owned(),
            zone: None,
            root_device: root.map(name),
            devices: devices
                .iter()
                .map(|(device, id)| BlockDevice {
                    device: name(device),
                    volume: id.map(volume),
                    state: None,
                    card: None,
                    attach_time: None,
                })
                .collect(),
            network_interfaces: 3,
        }
    }

    fn counted(instance: &Instance, persistent: &[&str]) -> Option<(String, String)> {
        let values = Described::of(instance)?.values(&persistent.iter().map(|id| volume(id)).collect());
        Some((values.interfaces, values.volumes))
    }

    #[test]
    fn volumes_other_than_root_and_persistent_are_counted() {
        let devices = [
            ("/dev/xvda", Some("vol-0a")),
            ("/dev/sdb", Some("vol-0b")),
            ("/dev/sdc", Some("vol-0c")),
            ("/dev/sdd", None),
        ];
        let instance = instance(Some("/dev/xvda"), &devices);
        let counted = |persistent: &[&str]| counted(&instance, persistent).unwrap();
        assert_eq!(counted(&[]), ("3".to_owned(), "2".to_owned()));
        assert_eq!(counted(&["vol-0b"]).1, "1");
        assert_eq!(counted(&["vol-0b", "vol-0elsewhere"]).1, "1");
    }

    #[test]
    fn volume_count_is_never_below_0() {
        let without_root = instance(None, &[("/dev/sdb", Some("vol-0b"))]);
        assert_eq!(counted(&without_root, &["vol-0b"]).unwrap().1, "0");
        let no_volumes = instance(Some("/dev/xvda"), &[]);
        assert_eq!(counted(&no_volumes, &[]).unwrap().1, "0");
        let all_persistent = instance(Some("/dev/xvda"), &[("/dev/xvda", Some("vol-0a"))]);
        assert_eq!(counted(&all_persistent, &["vol-0a"]).unwrap().1, "0");
    }

    #[test]
    fn terminated_instance_has_no_volume_count() {
        for state in ["shutting-down", "terminated"] {
            let ended = Instance { state: state.to_owned(), ..instance(None, &[]) };
            assert_eq!(counted(&ended, &[]), None, "{state}");
        }
        let stopped = Instance { state: "stopped".to_owned(), ..instance(None, &[]) };
        assert!(counted(&stopped, &[]).is_some());
    }
}
