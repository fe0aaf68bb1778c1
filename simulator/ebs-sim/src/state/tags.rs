//! Tags: their rules, CreateTags, DeleteTags and DescribeTags.

use std::collections::BTreeSet;

use ebs_ec2::Tags;

use crate::api::{CreateTags, DeleteTags, DescribeTags, Fault, Reply, SimTag, Tag, TagSpecification};

use super::faults::{self, invalid_value};
use super::filters::{self, Filterable};
use super::ids::Kind;
use super::listings::Query;
use super::model::Sim;

/// Maximum number of tags that a resource can have, not counting `aws:` tags.
const MAX_TAGS: usize = 50;
const MAX_KEY: usize = 128;
const MAX_VALUE: usize = 256;
/// EC2's text about reserved keys.
const RESERVED: &str = "Tag keys starting with 'aws:' are reserved for internal use";

pub(super) fn tags_for(specifications: &[TagSpecification], kind: Kind) -> Result<Tags, Fault> {
    let mut all = Vec::new();
    for specification in specifications {
        if specification.resource_type != kind.resource_type() {
            return Err(invalid_value(format!(
                "'{}' is not a valid taggable resource type for this operation.",
                specification.resource_type
            )));
        }
        all.extend_from_slice(&specification.tags);
    }
    let tags = checked(&all, |_| RESERVED.to_owned())?;
    check_number(tags.len())?;
    Ok(tags)
}

fn checked(given: &[Tag], reserved: impl Fn(&str) -> String) -> Result<Tags, Fault> {
    let mut tags = Tags::new();
    for Tag { key, value } in given {
        if key.is_empty() || key.chars().count() > MAX_KEY {
            return Err(invalid_value(format!("Tag key '{key}' must have 1 to {MAX_KEY} characters.")));
        }
        if value.chars().count() > MAX_VALUE {
            return Err(invalid_value(format!("The value of tag '{key}' exceeds {MAX_VALUE} characters.")));
        }
        if key.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("aws:")) {
            return Err(invalid_value(reserved(key)));
        }
        if tags.insert(key.clone(), value.clone()).is_some() {
            return Err(invalid_value(format!("Duplicate tag key '{key}' specified.")));
        }
    }
    Ok(tags)
}

fn check_number(number: usize) -> Result<(), Fault> {
    if number <= MAX_TAGS {
        return Ok(());
    }
    Err(Fault::new("TagLimitExceeded", format!("A resource has at most {MAX_TAGS} tags.")))
}

fn tags_mut<'a>(sim: &'a mut Sim, id: &str) -> Result<&'a mut Tags, Fault> {
    let kind = Kind::of(id).ok_or_else(|| Fault::new("InvalidID", format!("The ID '{id}' is not valid")))?;
    kind.check(id)?;
    let found = match kind {
        Kind::Volume => sim.volumes.get_mut(id).map(|v| &mut v.tags),
        Kind::Snapshot => sim.snapshots.get_mut(id).map(|s| &mut s.tags),
        Kind::Instance => sim.instances.iter_mut().find(|i| i.id == id).map(|i| &mut i.tags),
    };
    found.ok_or_else(|| match kind {
        Kind::Volume => faults::no_such_volume(id),
        Kind::Snapshot => faults::no_such_snapshot(id),
        Kind::Instance => faults::no_such_instance(id),
    })
}

pub(super) fn create_tags(sim: &mut Sim, call: &CreateTags) -> Result<Reply, Fault> {
    if call.resources.is_empty() {
        return Err(faults::missing("resourceIdSet"));
    }
    if call.tags.is_empty() {
        return Err(faults::missing("tagSet"));
    }
    let reserved = |key: &str| format!("Value ( {key} ) for parameter key is invalid. {RESERVED}");
    let new = checked(&call.tags, reserved)?;
    // Check everything before changing anything, so that the call changes all resources or none.
    for id in &call.resources {
        let tags = tags_mut(sim, id)?;
        check_number(tags.len() + new.keys().filter(|key| !tags.contains_key(*key)).count())?;
    }
    faults::unless_dry_run(call.dry_run)?;
    for id in &call.resources {
        tags_mut(sim, id)?.extend(new.clone());
    }
    sim.touch();
    Ok(Reply::CreateTags)
}

pub(super) fn delete_tags(sim: &mut Sim, call: &DeleteTags) -> Result<Reply, Fault> {
    if call.resources.is_empty() {
        return Err(faults::missing("resourceIdSet"));
    }
    for id in &call.resources {
        tags_mut(sim, id)?;
    }
    faults::unless_dry_run(call.dry_run)?;
    for id in &call.resources {
        let tags = tags_mut(sim, id)?;
        tags.retain(|key, value| {
            let named =
                call.tags.iter().any(|tag| tag.key == *key && tag.value.as_ref().is_none_or(|wanted| wanted == value));
            !(named || call.tags.is_empty())
        });
    }
    sim.touch();
    Ok(Reply::DeleteTags)
}

pub(super) fn describe_tags(sim: &Sim, call: &DescribeTags) -> Result<Reply, Fault> {
    let query = Query::of("DescribeTags", &[], &call.filters).page(call.max_results, call.next_token.as_deref());
    query.check_pages("resourceSet")?;
    faults::unless_dry_run(call.dry_run)?;
    let found = tagged(sim).filter(|row| filters::matches(&call.filters, row)).map(|row| row.tag);
    Ok(Reply::DescribeTags(query.paged(found, |t| format!("{} {}", t.resource_id, t.key))?))
}

fn tagged(sim: &Sim) -> impl Iterator<Item = Row> {
    let volumes = sim.volumes.values().map(|v| (&v.id, Kind::Volume, &v.tags));
    let snapshots = sim.snapshots.values().map(|s| (&s.id, Kind::Snapshot, &s.tags));
    let instances = sim.instances.iter().map(|i| (&i.id, Kind::Instance, &i.tags));
    volumes.chain(snapshots).chain(instances).flat_map(|(id, kind, tags)| {
        tags.iter().map(move |(key, value)| Row {
            tag: SimTag {
                resource_id: id.clone(),
                resource_type: kind.resource_type().to_owned(),
                key: key.clone(),
                value: value.clone(),
            },
            own: Tags::from([(key.clone(), value.clone())]),
        })
    })
}

struct Row {
    tag: SimTag,
    own: Tags,
}

impl Filterable for Row {
    fn field(&self, name: &str) -> Vec<String> {
        match name {
            "key" => vec![self.tag.key.clone()],
            "value" => vec![self.tag.value.clone()],
            "resource-id" => vec![self.tag.resource_id.clone()],
            "resource-type" => vec![self.tag.resource_type.clone()],
            _ => Vec::new(),
        }
    }

    fn tags(&self) -> &Tags {
        &self.own
    }
}

/// Merges and sorts tag specifications, so that requests with the same tags are equal.
pub(super) fn in_order(specifications: &mut Vec<TagSpecification>) {
    let kinds: BTreeSet<String> = specifications.iter().map(|s| s.resource_type.clone()).collect();
    let merged = kinds.into_iter().map(|resource_type| {
        let mut tags: Vec<Tag> =
            specifications.iter().filter(|s| s.resource_type == resource_type).flat_map(|s| s.tags.clone()).collect();
        tags.sort_by(|a, b| (&a.key, &a.value).cmp(&(&b.key, &b.value)));
        TagSpecification { resource_type, tags }
    });
    *specifications = merged.collect();
}
