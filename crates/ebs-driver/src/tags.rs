//! Tags of volumes and snapshots, and their precedence. Later sources override earlier ones: the driver's own tags, the
//! cluster's tags, `tagSpecification*` of the class, the tags of the VolumeAttributesClass, `--extra-tags`.
//!
//! Decision: `docs/dev/decisions/0014-apply-tags-in-one-order.md`.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use ebs_ec2::{DriverName, Tags};

use crate::go_template::{self, Data, TemplateError};
use crate::parameters::{ClaimNames, MutableParameters, SnapshotParameters, TagTemplate, VolumeParameters};

/// The maximum number of tags of one EC2 resource.
pub const MAX_TAGS: usize = 50;
/// The maximum number of characters of a tag's key.
pub const MAX_KEY: usize = 128;
/// The maximum number of characters of a tag's value.
pub const MAX_VALUE: usize = 256;
/// Keys that no user may set. They are case-sensitive.
pub const RESERVED_KEYS: [&str; 3] =
    [DriverName::VOLUME_NAME_TAG, DriverName::SNAPSHOT_NAME_TAG, DriverName::CLUSTER_NAME_TAG];

/// Returns the prefixes of keys that no user may set. They are case-sensitive.
pub fn reserved_prefixes(driver: &DriverName) -> [String; 2] {
    ["kubernetes.io".to_owned(), format!("{driver}/")]
}

/// An invalid tag, with its key. With an invalid tag in `--extra-tags`, the driver does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TagError {
    #[error(
        "tag key {key:?} is reserved: CSIVolumeName, CSIVolumeSnapshotName, ebs.csi.aws.com/cluster-name, \
             kubernetes.io… and the driver's own {driver}/… must not be set; choose another key"
    )]
    Reserved { key: String, driver: DriverName },
    #[error("the value of tag {key:?} is not valid")]
    Template {
        key: String,
        #[source]
        cause: TemplateError,
    },
    #[error("tag key {key:?} is not valid: EC2 accepts keys of 1 to {MAX_KEY} characters that do not start with aws:")]
    Key { key: String },
    #[error("the value of tag {key:?} has {length} characters, but EC2 accepts at most {MAX_VALUE}")]
    Value { key: String, length: usize },
    #[error(
        "the volume or snapshot would have {count} tags, including the driver's own, but EC2 accepts at most {MAX_TAGS}"
    )]
    TooMany { count: usize },
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TagPolicy {
    pub driver: DriverName,
    /// `--k8s-tag-cluster-id`.
    pub cluster_id: Option<String>,
    /// `--extra-tags`, already checked by [`TagPolicy::check_extra`].
    pub extra: Tags,
    /// `--warn-on-invalid-tag`: whether to drop an invalid tag of a class with a warning.
    pub warn_on_invalid: bool,
}

impl TagPolicy {
    /// Refuses extra tags that the driver could never set.
    pub fn check_extra(&self) -> Result<(), TagError> {
        for (key, value) in &self.extra {
            self.check_user_key(key)?;
            if !value.contains("{{") {
                check_value(key, value)?;
            } else if let Err(cause @ TemplateError::Unsupported { .. }) = go_template::check(value) {
                return Err(TagError::Template { key: key.clone(), cause });
            }
        }
        Ok(())
    }

    /// Returns all tags of a new volume.
    pub fn of_volume(
        &self,
        name: &str,
        parameters: &VolumeParameters,
        mutable: &MutableParameters,
    ) -> Result<Tags, TagError> {
        let mut tags = self.own(DriverName::VOLUME_NAME_TAG, name);
        tags.extend(claim_tags(&parameters.claim));
        tags.extend(self.iops_tags(parameters.iops_per_gib, parameters.auto_iops_on_modify));
        self.add_cluster_tags(&mut tags, name);
        if let Some(id) = &self.cluster_id {
            tags.insert("KubernetesCluster".to_owned(), id.clone());
        }
        let values = parameters.claim.template_data();
        self.add_user_tags(&mut tags, &parameters.tags, &values)?;
        for key in &mutable.deletions {
            self.check_user_key(key)?;
            tags.remove(key);
        }
        self.add_user_tags(&mut tags, &mutable.tags, &values)?;
        for (key, value) in &self.extra {
            tags.insert(key.clone(), extra_value(key, value, &values)?);
        }
        checked(tags)
    }

    /// Returns the tags that a modification sets, and the keys of the tags that it deletes. Always refuses invalid
    /// tags. A modification neither sets nor deletes a tag with the key of an extra tag, which takes precedence.
    pub fn of_modification(&self, mutable: &MutableParameters) -> Result<(Tags, BTreeSet<String>), TagError> {
        let mut tags = Tags::new();
        let values = mutable.claim.template_data();
        for template in &mutable.tags {
            tags.insert(template.key.clone(), self.user_tag(template, &values)?);
        }
        mutable.deletions.iter().try_for_each(|key| self.check_user_key(key))?;
        let mut deletions: BTreeSet<String> = mutable.deletions.iter().cloned().collect();
        for key in self.extra.keys() {
            let (set, deleted) = (tags.remove(key), deletions.remove(key));
            if set.is_some() || deleted {
                tracing::warn!(key, "ignoring a tag of the VolumeAttributesClass: --extra-tags takes precedence");
            }
        }
        tags.extend(self.iops_tags(mutable.iops_per_gib(), mutable.auto_iops_on_modify()));
        Ok((checked(tags)?, deletions))
    }

    /// Returns all tags of a new snapshot. Uses the values of extra tags literally, not as templates.
    pub fn of_snapshot(&self, name: &str, parameters: &SnapshotParameters) -> Result<Tags, TagError> {
        let mut tags = self.own(DriverName::SNAPSHOT_NAME_TAG, name);
        self.add_cluster_tags(&mut tags, name);
        self.add_user_tags(&mut tags, &parameters.tags, &parameters.template_data())?;
        tags.extend(self.extra.clone());
        checked(tags)
    }

    fn own(&self, name_tag: &str, name: &str) -> Tags {
        Tags::from([(name_tag.to_owned(), name.to_owned()), (self.driver.managed_tag(), "true".to_owned())])
    }

    /// Returns the tags that record the IOPS ratio and `allowAutoIOPSIncreaseOnModify` for later modifications.
    fn iops_tags(&self, ratio: Option<NonZeroU32>, auto: Option<bool>) -> Tags {
        let ratio = ratio.map(|ratio| (self.driver.iops_per_gib_tag(), ratio.to_string()));
        ratio.into_iter().chain(auto.map(|auto| (self.driver.auto_iops_tag(), auto.to_string()))).collect()
    }

    fn add_cluster_tags(&self, tags: &mut Tags, name: &str) {
        if let Some(id) = &self.cluster_id {
            tags.insert(format!("kubernetes.io/cluster/{id}"), "owned".to_owned());
            tags.insert("Name".to_owned(), format!("{id}-dynamic-{name}"));
            tags.insert(DriverName::CLUSTER_NAME_TAG.to_owned(), id.clone());
        }
    }

    fn add_user_tags(&self, tags: &mut Tags, templates: &[TagTemplate], values: &Data) -> Result<(), TagError> {
        for template in templates {
            match self.user_tag(template, values) {
                Ok(value) => {
                    tags.insert(template.key.clone(), value);
                }
                Err(error) if self.warn_on_invalid => {
                    tracing::warn!(error = crate::status::chain(&error), "omitting an invalid tag");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn user_tag(&self, template: &TagTemplate, values: &Data) -> Result<String, TagError> {
        self.check_user_key(&template.key)?;
        let value = go_template::render(&template.template, values)
            .map_err(|cause| TagError::Template { key: template.key.clone(), cause })?;
        check_value(&template.key, &value)?;
        Ok(value)
    }

    fn check_user_key(&self, key: &str) -> Result<(), TagError> {
        if RESERVED_KEYS.contains(&key) || reserved_prefixes(&self.driver).iter().any(|prefix| key.starts_with(prefix))
        {
            return Err(TagError::Reserved { key: key.to_owned(), driver: self.driver.clone() });
        }
        check_key(key)
    }
}

/// Returns the value of an extra tag: the rendered template, or the text itself if it does not parse as one.
fn extra_value(key: &str, value: &str, values: &Data) -> Result<String, TagError> {
    match go_template::render(value, values) {
        Ok(value) => Ok(value),
        Err(TemplateError::Parse { .. }) => Ok(value.to_owned()),
        Err(cause) => Err(TagError::Template { key: key.to_owned(), cause }),
    }
}

fn claim_tags(claim: &ClaimNames) -> impl Iterator<Item = (String, String)> {
    let rows = [("pvc/name", &claim.pvc_name), ("pvc/namespace", &claim.pvc_namespace), ("pv/name", &claim.pv_name)];
    let tags = rows.map(|(what, name)| (format!("kubernetes.io/created-for/{what}"), name.clone()));
    tags.into_iter().filter(|(_, name)| !name.is_empty())
}

fn check_key(key: &str) -> Result<(), TagError> {
    let aws = key.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("aws:"));
    if aws || !(1..=MAX_KEY).contains(&key.chars().count()) {
        return Err(TagError::Key { key: key.to_owned() });
    }
    Ok(())
}

fn check_value(key: &str, value: &str) -> Result<(), TagError> {
    let length = value.chars().count();
    if length > MAX_VALUE {
        return Err(TagError::Value { key: key.to_owned(), length });
    }
    Ok(())
}

fn checked(tags: Tags) -> Result<Tags, TagError> {
    for (key, value) in &tags {
        check_key(key)?;
        check_value(key, value)?;
    }
    if tags.len() > MAX_TAGS {
        return Err(TagError::TooMany { count: tags.len() });
    }
    Ok(tags)
}

#[cfg(test)]
mod tests;
