//! The metadata: values at paths, and directory listings.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::api::SimInstance;
use crate::wire::xml::timestamp;

/// Values at paths below `/latest`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree(BTreeMap<String, String>);

impl Tree {
    /// Returns the metadata of an instance, with its current attachments. EC2 shows the attachments at launch instead.
    pub(crate) fn of(instance: &SimInstance, region: &str) -> Self {
        let mut tree = Self::default();
        tree.put("dynamic/instance-identity/document", document(instance, region));
        for (path, text) in [
            ("ami-id", instance.image_id.as_str()),
            ("instance-id", &instance.id),
            ("instance-type", &instance.instance_type),
            ("instance-life-cycle", "on-demand"),
            ("hostname", &instance.private_dns_name),
            ("local-hostname", &instance.private_dns_name),
            ("reservation-id", &instance.reservation_id),
            ("placement/availability-zone", &instance.zone),
            ("placement/availability-zone-id", &instance.zone_id),
            ("placement/region", region),
            ("services/domain", "amazonaws.com"),
            ("services/partition", "aws"),
            ("block-device-mapping/ami", &instance.root_device),
            ("block-device-mapping/root", &instance.root_device),
        ] {
            tree.put(&format!("meta-data/{path}"), text.to_owned());
        }
        if let Some(outpost) = &instance.outpost_arn {
            tree.put("meta-data/outpost-arn", outpost.clone());
        }
        let others = instance.devices.iter().filter(|device| device.device != instance.root_device);
        for (index, device) in others.enumerate() {
            let name = device.device.trim_start_matches("/dev/").to_owned();
            tree.put(&format!("meta-data/block-device-mapping/ebs{}", index + 1), name);
        }
        for (index, interface) in instance.network_interfaces.iter().enumerate() {
            let base = format!("meta-data/network/interfaces/macs/{}", interface.mac_address);
            tree.put(&format!("{base}/device-number"), index.to_string());
            tree.put(&format!("{base}/interface-id"), interface.id.clone());
            tree.put(&format!("{base}/mac"), interface.mac_address.clone());
            tree.put(&format!("{base}/local-ipv4s"), interface.private_ip.clone());
            tree.put(&format!("{base}/owner-id"), instance.owner_id.clone());
        }
        if let Some(first) = instance.network_interfaces.first() {
            tree.put("meta-data/mac", first.mac_address.clone());
            tree.put("meta-data/local-ipv4", first.private_ip.clone());
        }
        tree
    }

    fn put(&mut self, path: &str, text: String) {
        self.0.insert(path.to_owned(), text);
    }

    /// Returns the value at a path, or the listing if the path is a directory.
    pub(super) fn get(&self, path: &str) -> Option<String> {
        let path = path.trim_matches('/');
        if path.is_empty() {
            return Some("latest".to_owned());
        }
        let rest = path.strip_prefix("latest")?;
        let rest = if rest.is_empty() { "" } else { rest.strip_prefix('/')? };
        self.0.get(rest).cloned().or_else(|| self.listing(rest))
    }

    fn listing(&self, directory: &str) -> Option<String> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let mut names = BTreeSet::new();
        for rest in self.0.keys().filter_map(|path| path.strip_prefix(&prefix)) {
            names.insert(match rest.split_once('/') {
                Some((name, _)) => format!("{name}/"),
                None => rest.to_owned(),
            });
        }
        if names.is_empty() { None } else { Some(names.into_iter().collect::<Vec<_>>().join("\n")) }
    }
}

fn document(instance: &SimInstance, region: &str) -> String {
    let document = json!({
        "accountId": instance.owner_id,
        "architecture": "x86_64",
        "availabilityZone": instance.zone,
        "imageId": instance.image_id,
        "instanceId": instance.id,
        "instanceType": instance.instance_type,
        "pendingTime": timestamp(instance.launch_time),
        "privateIp": instance.network_interfaces.first().map(|interface| &interface.private_ip),
        "region": region,
        "version": "2017-09-30",
    });
    format!("{document:#}")
}
