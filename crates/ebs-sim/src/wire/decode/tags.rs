//! Tags: of an object being made, and of objects that exist.

use super::dry_run;
use crate::api::{CreateTags, DeleteTags, DescribeTags, Fault, Tag, TagSpecification, TagToDelete};
use crate::wire::params::Params;
use crate::wire::refusal::missing;

pub(super) fn tag_specifications(p: &mut Params) -> Result<Vec<TagSpecification>, Fault> {
    let mut specifications = Vec::new();
    for index in p.indices("TagSpecification") {
        let resource_type = p.text(&format!("TagSpecification.{index}.ResourceType")).unwrap_or_default();
        let tags = tags(p, &format!("TagSpecification.{index}.Tag"))?;
        specifications.push(TagSpecification { resource_type, tags });
    }
    Ok(specifications)
}

/// Tags; one without a value has the empty one.
fn tags(p: &mut Params, prefix: &str) -> Result<Vec<Tag>, Fault> {
    let pairs = p.pairs(prefix)?;
    Ok(pairs.into_iter().map(|(key, value)| Tag { key, value: value.unwrap_or_default() }).collect())
}

fn resources(p: &mut Params) -> Result<Vec<String>, Fault> {
    let resources = p.list("ResourceId");
    if resources.is_empty() { Err(missing("ResourceId")) } else { Ok(resources) }
}

pub(super) fn create_tags(p: &mut Params) -> Result<CreateTags, Fault> {
    let resources = resources(p)?;
    let tags = tags(p, "Tag")?;
    if tags.is_empty() {
        return Err(missing("Tag"));
    }
    Ok(CreateTags { resources, tags, dry_run: dry_run(p)? })
}

pub(super) fn delete_tags(p: &mut Params) -> Result<DeleteTags, Fault> {
    let resources = resources(p)?;
    let tags = p.pairs("Tag")?.into_iter().map(|(key, value)| TagToDelete { key, value }).collect();
    Ok(DeleteTags { resources, tags, dry_run: dry_run(p)? })
}

pub(super) fn describe_tags(p: &mut Params) -> Result<DescribeTags, Fault> {
    Ok(DescribeTags {
        filters: p.filters()?,
        max_results: p.int("MaxResults")?,
        next_token: p.text("NextToken"),
        dry_run: dry_run(p)?,
    })
}
