//! Compares an existing volume that has the requested name with the request.

use ebs_ec2::{DriverName, Tags, Volume, VolumeState, may_be_one_kms_key};

use super::plan;
use crate::{Source, VolumeSpec};

const IN_TREE_CLUSTER: &str = "KubernetesCluster";
const IN_TREE_CLUSTER_PREFIX: &str = "kubernetes.io/cluster/";

pub(crate) fn ownership<'a>(driver: &DriverName, tags: &'a Tags) -> impl Iterator<Item = (&'a String, &'a String)> {
    let managed = driver.managed_tag();
    tags.iter().filter(move |(key, _)| {
        **key == managed
            || key.as_str() == DriverName::CLUSTER_NAME_TAG
            || key.as_str() == IN_TREE_CLUSTER
            || key.starts_with(IN_TREE_CLUSTER_PREFIX)
    })
}

pub(super) fn is_ours(driver: &DriverName, spec: &VolumeSpec, found: &Volume) -> bool {
    found.csi_name() == Some(&spec.name)
        && ownership(driver, &spec.tags).all(|(key, wanted)| found.tags.get(key) == Some(wanted))
}

pub(super) fn is_live(volume: &Volume) -> bool {
    match volume.state {
        VolumeState::Creating | VolumeState::Available | VolumeState::InUse | VolumeState::Other(_) => true,
        VolumeState::Deleting | VolumeState::Deleted | VolumeState::Error => false,
    }
}

pub(super) fn differences(driver: &DriverName, spec: &VolumeSpec, found: &Volume) -> Vec<String> {
    let mut all = Vec::new();
    for (key, wanted) in ownership(driver, &spec.tags) {
        if found.tags.get(key) != Some(wanted) {
            all.push(format!("the tag {key} is not {wanted:?}, so the volume may belong to another cluster"));
        }
    }
    let mut must = |holds: bool, difference: &str| {
        if !holds {
            all.push(difference.to_owned());
        }
    };
    must(is_made_from(found, &spec.source), "it was made from another source");
    must(plan::allows_place_of(&spec.topology, found), "it is in a zone that the request excludes");
    must(is_of_size(found, spec), &format!("its size is {}", found.size));
    must(found.volume_type == spec.volume_type, &format!("its type is {}", found.volume_type));
    must(has_encryption(found, spec), "its encryption or KMS key is different");
    must(found.multi_attach.unwrap_or(false) == spec.multi_attach, "its multi-attach setting is different");
    // EC2 creates a clone on the Outpost of its source.
    let may_be_on_outpost = plan::asks_for_outpost(&spec.topology) || matches!(spec.source, Source::Volume(_));
    must(found.outpost_arn.is_none() || may_be_on_outpost, "it is on an Outpost");
    all
}

fn is_made_from(found: &Volume, source: &Source) -> bool {
    match source {
        Source::Blank => found.snapshot.is_none() && found.source_volume.is_none(),
        Source::Snapshot(id) => found.snapshot.as_ref() == Some(id),
        Source::Volume(id) => found.source_volume.as_ref() == Some(id),
    }
}

fn is_of_size(found: &Volume, spec: &VolumeSpec) -> bool {
    let enough = spec.capacity.required.is_none_or(|required| found.size >= required);
    let allowed = spec.capacity.limit.is_none_or(|limit| found.size <= limit);
    enough && allowed
}

/// Returns true if the encryption matches. The account's default may encrypt a volume for which the request asks for no
/// encryption.
fn has_encryption(found: &Volume, spec: &VolumeSpec) -> bool {
    match &spec.kms_key_id {
        None => found.encrypted || !spec.encrypted,
        Some(asked) => {
            let shown = found.kms_key_id.as_deref().unwrap_or_default();
            found.encrypted && may_be_one_kms_key(asked, shown)
        }
    }
}

#[cfg(test)]
#[path = "adopt_tests.rs"]
mod tests;
