//! What a call names, for rules that are about one volume or one request.

use crate::actions;
use crate::api::{Call, Filter, Tag, TagSpecification};

/// True when the call names what the pattern means: an id, a client token, a filter's or tag's value.
pub(super) fn names(call: &Call, pattern: &str) -> bool {
    let mut found = false;
    each_name(call, &mut |name| found |= actions::matches(pattern, name));
    found
}

fn filters(filters: &[Filter], each: &mut impl FnMut(&str)) {
    filters.iter().flat_map(|filter| &filter.values).for_each(|value| each(value));
}

fn tags(specifications: &[TagSpecification], each: &mut impl FnMut(&str)) {
    specifications.iter().flat_map(|spec| &spec.tags).for_each(|Tag { value, .. }| each(value));
}

fn each_name(call: &Call, each: &mut impl FnMut(&str)) {
    macro_rules! listed {
        ($ids:expr, $filters:expr) => {{
            $ids.iter().for_each(|id| each(id));
            filters(&$filters, each);
        }};
    }
    match call {
        Call::CreateVolume(c) => {
            c.client_token.iter().chain(&c.snapshot_id).for_each(|name| each(name));
            tags(&c.tag_specifications, each);
        }
        Call::CopyVolumes(c) => {
            each(&c.source_volume_id);
            c.client_token.iter().for_each(|name| each(name));
            tags(&c.tag_specifications, each);
        }
        Call::DeleteVolume(c) => each(&c.volume_id),
        Call::AttachVolume(c) => {
            each(&c.volume_id);
            each(&c.instance_id);
        }
        Call::DetachVolume(c) => {
            each(&c.volume_id);
            c.instance_id.iter().for_each(|name| each(name));
        }
        Call::ModifyVolume(c) => each(&c.volume_id),
        Call::CreateSnapshot(c) => {
            each(&c.volume_id);
            tags(&c.tag_specifications, each);
        }
        Call::DeleteSnapshot(c) => each(&c.snapshot_id),
        Call::CreateTags(c) => {
            c.resources.iter().for_each(|id| each(id));
            c.tags.iter().for_each(|tag| each(&tag.value));
        }
        Call::DeleteTags(c) => c.resources.iter().for_each(|id| each(id)),
        Call::DescribeVolumes(c) => listed!(c.volume_ids, c.filters),
        Call::DescribeVolumeStatus(c) => listed!(c.volume_ids, c.filters),
        Call::DescribeVolumesModifications(c) => listed!(c.volume_ids, c.filters),
        Call::DescribeSnapshots(c) => listed!(c.snapshot_ids, c.filters),
        Call::DescribeTags(c) => filters(&c.filters, each),
        Call::DescribeInstances(c) => listed!(c.instance_ids, c.filters),
        Call::DescribeInstanceTypes(c) => listed!(c.instance_types, c.filters),
        Call::DescribeAvailabilityZones(c) => listed!(c.zone_names, c.filters),
        Call::RunInstances(c) => {
            c.client_token.iter().for_each(|name| each(name));
            tags(&c.tag_specifications, each);
        }
        Call::TerminateInstances(c) => c.instance_ids.iter().for_each(|id| each(id)),
        Call::EnableFastSnapshotRestores(c) => c.source_snapshot_ids.iter().for_each(|id| each(id)),
        Call::DescribeFastSnapshotRestores(c) => filters(&c.filters, each),
        Call::LockSnapshot(c) => each(&c.snapshot_id),
        Call::DescribeLockedSnapshots(c) => listed!(c.snapshot_ids, c.filters),
        Call::AttachClusterNodeVolume(c) | Call::DetachClusterNodeVolume(c) => {
            each(&c.volume_id);
            each(&c.node_id);
        }
    }
}
