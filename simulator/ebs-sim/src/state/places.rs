//! Zones, instances and instance types.

use std::collections::BTreeSet;

use ebs_ec2::{LimitKind, attachment_limit, ebs_cards, is_xen};

use crate::api::{
    DescribeAvailabilityZones, DescribeInstanceTypes, DescribeInstances, Fault, Reply, SimInstance, SimInstanceType,
    SimZone,
};
use crate::config::ZoneConfig;

use super::attachments::attachments_of;
use super::faults;
use super::filters::{self, Filterable};
use super::ids::Kind;
use super::listings::{Equipped, Query};
use super::model::{Instance, Sim, hypervisor};

const MAX_TYPES_PAGE: i64 = 100;

pub(super) fn describe_instance(sim: &Sim, instance: &Instance) -> SimInstance {
    let devices = attachments_of(sim, &instance.id).map(|(volume, a)| a.describe(volume)).collect();
    let (state, state_code) = instance.state();
    SimInstance {
        id: instance.id.clone(),
        state: state.to_owned(),
        state_code,
        instance_type: instance.instance_type.clone(),
        zone: instance.zone.clone(),
        zone_id: instance.zone_id.clone(),
        reservation_id: instance.reservation_id.clone(),
        owner_id: sim.account.id.clone(),
        image_id: instance.image_id.clone(),
        private_dns_name: instance.private_dns_name(),
        launch_time: instance.launch_time,
        hypervisor: hypervisor(&instance.instance_type).to_owned(),
        root_device: instance.root_device.clone(),
        devices,
        outpost_arn: sim.policy.account.machine_outpost.clone().filter(|_| instance.local),
        network_interfaces: instance.interfaces.clone(),
        tags: instance.tags.clone(),
        local: instance.local,
    }
}

pub(super) fn describe_instances(sim: &Sim, call: &DescribeInstances) -> Result<Reply, Fault> {
    let query = Query::of("DescribeInstances", &call.instance_ids, &call.filters)
        .page(call.max_results, call.next_token.as_deref())
        .with_tokens_after_full_pages(sim.policy.account.oddities.tokens_after_full_pages);
    query.check(Kind::Instance)?;
    let is_missing = |id: &&String| !sim.instances.iter().any(|i| i.id == **id);
    let missing: Vec<&str> = call.instance_ids.iter().filter(is_missing).map(String::as_str).collect();
    if !missing.is_empty() {
        return Err(faults::no_such_instances(&missing));
    }
    faults::unless_dry_run(call.dry_run)?;
    // Gather the attachments of an instance only if its id is right: that takes a look at every volume.
    let ids = query.filtered_ids("instance-id");
    let named = sim.instances.iter().filter(|i| {
        let is_named = call.instance_ids.is_empty() || call.instance_ids.contains(&i.id);
        is_named && ids.as_ref().is_none_or(|ids| ids.contains(i.id.as_str()))
    });
    let chosen = named.filter(|i| {
        let equipped =
            Equipped { instance: i, attachments: attachments_of(sim, &i.id).collect(), owner: &sim.account.id };
        query.wants(&i.id, &equipped)
    });
    let described = chosen.map(|i| describe_instance(sim, i));
    Ok(Reply::DescribeInstances(query.paged(described, |i| i.id.clone())?))
}

pub(super) fn describe_instance_types(sim: &Sim, call: &DescribeInstanceTypes) -> Result<Reply, Fault> {
    let query = Query::of("DescribeInstanceTypes", &call.instance_types, &call.filters)
        .page(call.max_results, call.next_token.as_deref());
    if let Some(asked) = call.max_results.filter(|n| *n > MAX_TYPES_PAGE) {
        return Err(faults::bad_page_size(asked, 5, MAX_TYPES_PAGE));
    }
    query.check_pages("instanceTypeSet")?;
    let wrong: Vec<&str> = call.instance_types.iter().map(String::as_str).filter(|name| !is_type_name(name)).collect();
    if !wrong.is_empty() {
        return Err(Fault::new(
            "InvalidInstanceType",
            format!("The following supplied instance types do not exist: [{}]", wrong.join(", ")),
        ));
    }
    faults::unless_dry_run(call.dry_run)?;
    let names: BTreeSet<String> = if call.instance_types.is_empty() {
        let asked = call.filters.iter().filter(|f| f.name == "instance-type").flat_map(|f| f.values.clone());
        let ours = sim.instances.iter().map(|i| i.instance_type.clone());
        ours.chain(asked.filter(|name| is_type_name(name))).collect()
    } else {
        call.instance_types.iter().cloned().collect()
    };
    let chosen = names.iter().map(|name| instance_type(name)).filter(|t| filters::matches(&call.filters, t));
    Ok(Reply::DescribeInstanceTypes(query.paged(chosen, |t| t.name.clone())?))
}

pub(super) fn describe_availability_zones(sim: &Sim, call: &DescribeAvailabilityZones) -> Result<Reply, Fault> {
    filters::check("DescribeAvailabilityZones", &call.filters)?;
    for name in &call.zone_names {
        if sim.account.zone_named(name).is_none() {
            return Err(invalid_zone(name));
        }
    }
    for id in &call.zone_ids {
        if sim.account.zone_with_id(id).is_none() {
            return Err(invalid_zone(id));
        }
    }
    faults::unless_dry_run(call.dry_run)?;
    let named = |z: &&ZoneConfig| {
        (call.zone_names.is_empty() || call.zone_names.contains(&z.name))
            && (call.zone_ids.is_empty() || call.zone_ids.contains(&z.id))
    };
    let zones = sim.account.zones.iter().filter(named).map(|z| zone(z, &sim.account.region));
    Ok(Reply::DescribeAvailabilityZones(zones.filter(|z| filters::matches(&call.filters, z)).collect()))
}

fn invalid_zone(name: &str) -> Fault {
    faults::invalid_value(format!("Invalid availability zone: [{name}]"))
}

fn zone(config: &ZoneConfig, region: &str) -> SimZone {
    let local = config.zone_type != "availability-zone";
    let group = if local { config.name.trim_end_matches(|c: char| c.is_ascii_lowercase()) } else { region };
    SimZone {
        name: config.name.clone(),
        id: config.id.clone(),
        region: region.to_owned(),
        zone_type: config.zone_type.clone(),
        state: "available".to_owned(),
        opt_in_status: if local { "opted-in" } else { "opt-in-not-required" }.to_owned(),
        group_name: group.to_owned(),
        network_border_group: group.to_owned(),
    }
}

/// Returns whether the name has the form of a type. EC2 has hundreds of types; here every well-formed name is valid.
pub(crate) fn is_type_name(name: &str) -> bool {
    let part = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    name.split_once('.').is_some_and(|(family, size)| part(family) && part(size))
}

fn instance_type(name: &str) -> SimInstanceType {
    let limit = attachment_limit(name);
    SimInstanceType {
        name: name.to_owned(),
        hypervisor: hypervisor(name).to_owned(),
        maximum_ebs_cards: ebs_cards(name),
        maximum_ebs_attachments: limit.limit,
        attachment_limit_type: match limit.kind {
            LimitKind::Shared => "shared",
            LimitKind::Dedicated => "dedicated",
        }
        .to_owned(),
        nvme_support: if is_xen(name) { "unsupported" } else { "required" }.to_owned(),
    }
}

impl Filterable for SimInstanceType {
    fn field(&self, name: &str) -> Vec<String> {
        match name {
            "instance-type" => vec![self.name.clone()],
            "hypervisor" => vec![self.hypervisor.clone()],
            "ebs-info.maximum-ebs-attachments" => vec![self.maximum_ebs_attachments.to_string()],
            "ebs-info.attachment-limit-type" => vec![self.attachment_limit_type.clone()],
            "ebs-info.encryption-support" => vec!["supported".to_owned()],
            "current-generation" => vec![(self.hypervisor == "nitro").to_string()],
            "bare-metal" => vec![self.name.contains(".metal").to_string()],
            "ebs-info.nvme-support" => vec![self.nvme_support.clone()],
            _ => Vec::new(),
        }
    }
}

impl Filterable for SimZone {
    fn field(&self, name: &str) -> Vec<String> {
        match name {
            "zone-name" => vec![self.name.clone()],
            "zone-id" => vec![self.id.clone()],
            "zone-type" => vec![self.zone_type.clone()],
            "region-name" => vec![self.region.clone()],
            "state" => vec![self.state.clone()],
            "opt-in-status" => vec![self.opt_in_status.clone()],
            "group-name" => vec![self.group_name.clone()],
            _ => Vec::new(),
        }
    }
}
