use ebs_cloud::ModifySpec;
use ebs_ec2::{IopsRequest, Tags};

use super::Change;

/// Merges all changes field by field and tag by tag, or returns `None` when two of them contradict each other.
pub(super) fn merged<'a>(changes: impl IntoIterator<Item = &'a Change>) -> Option<ModifySpec> {
    changes.into_iter().try_fold(ModifySpec::default(), |all, change| both(all, &change.spec))
}

fn both(a: ModifySpec, b: &ModifySpec) -> Option<ModifySpec> {
    let iops = match (a.iops, b.iops) {
        (IopsRequest::Default, other) | (other, IopsRequest::Default) => other,
        (one, other) if one == other => one,
        _ => return None,
    };
    let is_set_and_deleted = |a: &ModifySpec, b: &ModifySpec| {
        a.deleted_tags.iter().any(|key| b.tags.contains_key(key) && !a.tags.contains_key(key))
    };
    if is_set_and_deleted(&a, b) || is_set_and_deleted(b, &a) {
        return None;
    }
    Some(ModifySpec {
        size: one_of(a.size, b.size)?,
        volume_type: one_of(a.volume_type, b.volume_type.clone())?,
        iops,
        auto_iops: one_of(a.auto_iops, b.auto_iops)?,
        throughput: one_of(a.throughput, b.throughput)?,
        tags: tags(a.tags, &b.tags)?,
        deleted_tags: a.deleted_tags.union(&b.deleted_tags).cloned().collect(),
    })
}

/// Returns the one value that is set (`Some(None)` if none is), or `None` when two different values are set.
#[expect(clippy::option_option, reason = "a contradiction is not the same as an unset value")]
fn one_of<T: PartialEq>(a: Option<T>, b: Option<T>) -> Option<Option<T>> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => None,
        (a, b) => Some(a.or(b)),
    }
}

fn tags(mut all: Tags, more: &Tags) -> Option<Tags> {
    for (key, value) in more {
        if all.insert(key.clone(), value.clone()).is_some_and(|before| before != *value) {
            return None;
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::num::NonZeroU32;

    use ebs_ec2::{Gib, VolumeType};

    use super::*;
    use crate::rpc::Rpc;

    fn change(spec: ModifySpec) -> Change {
        Change { rpc: Rpc::ControllerModifyVolume, spec }
    }

    fn of(specs: &[ModifySpec]) -> Option<ModifySpec> {
        let changes: Vec<Change> = specs.iter().cloned().map(change).collect();
        merged(&changes)
    }

    fn tagged(set: &[(&str, &str)], deleted: &[&str]) -> ModifySpec {
        ModifySpec {
            tags: set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            deleted_tags: deleted.iter().map(|key| (*key).to_owned()).collect(),
            ..ModifySpec::default()
        }
    }

    /// The merged change keeps each field that only one request sets, including the IOPS ratio and `auto_iops`.
    #[test]
    fn merge_keeps_fields_that_only_one_request_sets() {
        let class = ModifySpec {
            volume_type: Some(VolumeType::Io2),
            iops: IopsRequest::per_gib(50),
            auto_iops: Some(true),
            ..tagged(&[("a", "1")], &["b"])
        };
        let other = ModifySpec {
            throughput: NonZeroU32::new(200),
            volume_type: Some(VolumeType::Io2),
            ..tagged(&[("c", "1"), ("a", "1")], &["d"])
        };
        let all = ModifySpec {
            size: Some(Gib(10)),
            volume_type: Some(VolumeType::Io2),
            iops: IopsRequest::per_gib(50),
            auto_iops: Some(true),
            throughput: NonZeroU32::new(200),
            ..tagged(&[("a", "1"), ("c", "1")], &["b", "d"])
        };
        let growth = ModifySpec::size(Gib(10));
        assert_eq!(of(&[growth.clone(), class.clone(), other.clone()]), Some(all.clone()));
        assert_eq!(of(&[other, class, growth]), Some(all));
        assert_eq!(of(&[]), Some(ModifySpec::default()));
    }

    /// Contradictions are two values for one property or tag, both IOPS and an IOPS ratio, and a tag that one request
    /// sets and another deletes. The order of deletions does not matter.
    #[test]
    fn contradictory_changes_are_not_merged() {
        let default = ModifySpec::default;
        let pairs = [
            (ModifySpec::size(Gib(10)), ModifySpec::size(Gib(11))),
            (
                ModifySpec { volume_type: Some(VolumeType::Io1), ..default() },
                ModifySpec { volume_type: Some(VolumeType::Io2), ..default() },
            ),
            (
                ModifySpec { iops: IopsRequest::explicit(100), ..default() },
                ModifySpec { iops: IopsRequest::per_gib(100), ..default() },
            ),
            (ModifySpec { auto_iops: Some(true), ..default() }, ModifySpec { auto_iops: Some(false), ..default() }),
            (
                ModifySpec { throughput: NonZeroU32::new(200), ..default() },
                ModifySpec { throughput: NonZeroU32::new(201), ..default() },
            ),
            (tagged(&[("a", "1")], &[]), tagged(&[("a", "2")], &[])),
            (tagged(&[("a", "1")], &[]), tagged(&[], &["a"])),
        ];
        for (a, b) in pairs {
            assert_eq!(of(&[a.clone(), b.clone()]), None, "{a:?} {b:?}");
            assert_eq!(of(&[b.clone(), a.clone()]), None, "{b:?} {a:?}");
            assert_eq!(of(&[a.clone(), a.clone()]), Some(a));
        }
        let twice = ModifySpec { deleted_tags: BTreeSet::from(["b".to_owned(), "a".to_owned()]), ..default() };
        assert_eq!(of(&[tagged(&[], &["a", "b"]), twice.clone()]), Some(twice));
        let set_after_all = tagged(&[("a", "1")], &["a"]);
        assert_eq!(of(&[set_after_all.clone(), tagged(&[("a", "1")], &[])]), Some(set_after_all));
    }
}
