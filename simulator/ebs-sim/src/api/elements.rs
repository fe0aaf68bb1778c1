//! Elements of parameter lists.

use serde::{Deserialize, Serialize};

use super::query::{Element, Named, Params};
use super::table::{element, field};
use super::{Fault, missing};

element!(Filter {
    /// A name such as `volume-id` or `tag:KEY`.
    name: String = "Name" required;
    /// A resource matches if one of these values matches. `*` and `?` are wildcards, and `\` escapes them.
    values: Vec<String> = "Value";
});

impl Named for Filter {
    fn each_name(&self, each: &mut dyn FnMut(&str)) {
        self.values.each_name(each);
    }
}

/// A tag as the client sent it. A missing value becomes an empty one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    pub key: String,
    pub value: String,
}

/// A tag to delete. If it has a value, only a tag with this value is deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagToDelete {
    pub key: String,
    pub value: Option<String>,
}

impl Element for TagToDelete {
    fn element(p: &mut Params, prefix: &str) -> Result<Option<Self>, Fault> {
        let name = format!("{prefix}.Key");
        // Accept an empty key here: the state rejects it. Decoding rejects any other required text that is empty.
        let key = p.text(&name).ok_or_else(|| missing(&name))?;
        Ok(Some(Self { key, value: p.text(&format!("{prefix}.Value")) }))
    }
}

impl Element for Tag {
    fn element(p: &mut Params, prefix: &str) -> Result<Option<Self>, Fault> {
        let tag = TagToDelete::element(p, prefix)?;
        Ok(tag.map(|TagToDelete { key, value }| Self { key, value: value.unwrap_or_default() }))
    }
}

impl Named for Tag {
    fn each_name(&self, each: &mut dyn FnMut(&str)) {
        each(&self.value);
    }
}

element!(TagSpecification {
    /// A type such as `volume` or `snapshot`.
    resource_type: String = "ResourceType";
    /// The tags as sent, including duplicates.
    tags: Vec<Tag> = "Tag";
});

impl Named for TagSpecification {
    fn each_name(&self, each: &mut dyn FnMut(&str)) {
        self.tags.each_name(each);
    }
}

element!(
    /// A disk of an instance to be launched.
    BlockDeviceMapping first unused_of_disk {
        device_name: String = "DeviceName" required;
        /// Whether to launch the instance without the image's disk of that name.
        no_device: bool = "NoDevice" present;
        delete_on_termination: Option<bool> = "Ebs.DeleteOnTermination";
        snapshot_id: Option<String> = "Ebs.SnapshotId";
        volume_size: Option<i64> = "Ebs.VolumeSize";
        volume_type: Option<String> = "Ebs.VolumeType";
        iops: Option<i64> = "Ebs.Iops";
        throughput: Option<i64> = "Ebs.Throughput";
        encrypted: Option<bool> = "Ebs.Encrypted";
        kms_key_id: Option<String> = "Ebs.KmsKeyId";
        ebs_card_index: Option<i64> = "Ebs.EbsCardIndex";
    }
);

fn unused_of_disk(p: &mut Params, prefix: &str) -> Result<(), Fault> {
    let name = |rest: &str| format!("{prefix}.{rest}");
    p.refuse(&name("Ebs.OutpostArn"))?;
    p.refuse(&name("Ebs.VolumeInitializationRate"))?;
    for unused in ["VirtualName", "Ebs.AvailabilityZone", "Ebs.AvailabilityZoneId"] {
        p.ignore(&name(unused));
    }
    Ok(())
}
