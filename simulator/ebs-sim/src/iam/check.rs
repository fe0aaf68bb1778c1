//! EC2's checks of the caller's policies for each call, as in EC2's service authorization reference. Tags of the
//! request are available only where the request creates or tags a resource.

use std::collections::BTreeMap;

use ebs_ec2::Tags;

use crate::api::{AttachVolume, Call, CopyVolumes, CreateSnapshot, CreateVolume, RunInstances, Tag, TagSpecification};

use super::key::Key;
use super::pattern::Lookup;

/// The facts about the simulated account on which permissions depend.
pub(crate) trait AccountFacts {
    fn region(&self) -> &str;
    fn account(&self) -> &str;
    /// Returns the facts about a volume, snapshot or instance, or `None` if the id does not exist.
    fn facts(&self, id: &str) -> Option<Facts<'_>>;
    /// Returns the ARN of a named key, or `None` for the account's default key, which needs no permissions.
    fn customer_key(&self, given: &str) -> Option<String>;
    /// Returns the ARN of the customer key with which the account encrypts a new volume without an explicit key.
    /// `asked` means that the request asks for encryption.
    fn default_customer_key(&self, asked: bool) -> Option<String>;
}

#[derive(Debug, Clone)]
pub(crate) struct Facts<'a> {
    pub(crate) tags: &'a Tags,
    pub(crate) volume_type: Option<&'a str>,
    pub(crate) zone: Option<&'a str>,
    pub(crate) encrypted: bool,
    /// ARN of the customer key that encrypts the resource.
    pub(crate) customer_key: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ResourceTags {
    /// The resource does not exist yet, or resources of its kind have no tags in the simulator.
    None,
    Of(Tags),
    /// The id does not exist.
    NoSuchResource,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) action: &'static str,
    pub(super) arn: String,
    resource_tags: ResourceTags,
    request_tags: Tags,
    tag_keys: Vec<String>,
    create_action: Option<&'static str>,
    attributes: BTreeMap<&'static str, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyValues {
    Absent,
    Values(Vec<String>),
    /// The condition key is a tag of a resource that does not exist.
    NoSuchResource,
}

impl Check {
    pub(super) fn plain(action: &'static str) -> Self {
        Self::new(action, "*".to_owned())
    }

    pub(super) fn new(action: &'static str, arn: String) -> Self {
        Self {
            action,
            arn,
            resource_tags: ResourceTags::None,
            request_tags: Tags::new(),
            tag_keys: Vec::new(),
            create_action: None,
            attributes: BTreeMap::new(),
        }
    }

    pub(super) fn with_resource_tags(mut self, tags: &Tags) -> Self {
        self.resource_tags = ResourceTags::Of(tags.clone());
        self
    }

    pub(super) fn with_request_tags(mut self, tags: &[(&str, &str)]) -> Self {
        self.tag_keys = tags.iter().map(|(key, _)| (*key).to_owned()).collect();
        self.request_tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        self
    }

    pub(super) fn created_by(mut self, action: &'static str) -> Self {
        self.create_action = Some(action);
        self
    }

    fn with(mut self, attribute: &'static str, value: impl Into<String>) -> Self {
        self.attributes.insert(attribute, value.into());
        self
    }

    /// Returns the values of a condition key in the request. `lookup` returns the tags of the caller.
    pub(super) fn find(&self, key: &Key, lookup: Lookup<'_>) -> KeyValues {
        match (key, &self.resource_tags) {
            (Key::ResourceTag(_), ResourceTags::NoSuchResource) => KeyValues::NoSuchResource,
            (Key::TagKeys, _) if self.tag_keys.is_empty() => KeyValues::Absent,
            (Key::TagKeys, _) => KeyValues::Values(self.tag_keys.clone()),
            (key, _) => lookup(key).map_or(KeyValues::Absent, |value| KeyValues::Values(vec![value])),
        }
    }

    /// Returns the value of a condition key that has at most one.
    pub(super) fn variable(&self, key: &Key, caller: &Tags) -> Option<String> {
        match key {
            Key::RequestTag(tag) => tag_of(&self.request_tags, tag),
            Key::ResourceTag(tag) => match &self.resource_tags {
                ResourceTags::Of(tags) => tag_of(tags, tag),
                ResourceTags::None | ResourceTags::NoSuchResource => None,
            },
            Key::PrincipalTag(tag) => tag_of(caller, tag),
            Key::TagKeys => None,
            Key::CreateAction => self.create_action.map(str::to_owned),
            Key::Attribute(name) => self.attributes.get(name).cloned(),
        }
    }
}

/// Names of condition keys are not case-sensitive, including the tag key in them.
fn tag_of(tags: &Tags, key: &str) -> Option<String> {
    let same = || tags.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value);
    tags.get(key).or_else(same).cloned()
}

pub(super) fn checks(call: &Call, known: &impl AccountFacts) -> Vec<Check> {
    let ask = Asker { known };
    match call {
        Call::CreateVolume(c) => ask.create_volume(c),
        Call::CopyVolumes(c) => ask.copy_volumes(c),
        Call::CreateSnapshot(c) => ask.create_snapshot(c),
        Call::AttachVolume(c) => ask.attach(c),
        Call::CreateTags(c) => {
            let tags = pairs(&c.tags);
            c.resources.iter().map(|id| ask.about("ec2:CreateTags", id).with_request_tags(&tags)).collect()
        }
        Call::DeleteTags(c) => {
            let tags: Vec<_> = c.tags.iter().map(|t| (t.key.as_str(), t.value.as_deref().unwrap_or(""))).collect();
            c.resources.iter().map(|id| ask.about("ec2:DeleteTags", id).with_request_tags(&tags)).collect()
        }
        Call::RunInstances(c) => ask.launch(c),
        Call::AttachClusterNodeVolume(c) | Call::DetachClusterNodeVolume(c) => {
            vec![ask.at(Check::new(call.permission(), c.cluster_arn.clone()))]
        }
        // A describe has no resource. Every other call has a check for each resource that it names.
        _ if call.action().starts_with("Describe") => vec![Check::plain(call.permission())],
        _ => ask.each_named(call),
    }
}

fn pairs(tags: &[Tag]) -> Vec<(&str, &str)> {
    tags.iter().map(|tag| (tag.key.as_str(), tag.value.as_str())).collect()
}

struct Asker<'a, K> {
    known: &'a K,
}

impl<K: AccountFacts> Asker<'_, K> {
    fn create_volume(&self, call: &CreateVolume) -> Vec<Check> {
        let new = self.new_volume("ec2:CreateVolume", call.volume_type.as_deref(), call.encrypted == Some(true));
        let zone = call.availability_zone.as_deref();
        let new = zone.into_iter().fold(new, |new, zone| new.with("ec2:AvailabilityZone", zone));
        let mut checks = self.tagged(new, "CreateVolume", &call.tag_specifications, "volume");
        let source = call.snapshot_id.as_deref();
        checks.extend(source.map(|id| self.about("ec2:CreateVolume", id)));
        let key = self.key_of(call.kms_key_id.as_deref(), call.encrypted == Some(true));
        checks.extend(self.keys_of_creation(key, source));
        checks
    }

    fn copy_volumes(&self, call: &CopyVolumes) -> Vec<Check> {
        let source = call.source_volume_id.as_str();
        let of_source = self.known.facts(source).is_some_and(|facts| facts.encrypted);
        let encrypted = of_source || call.encrypted == Some(true);
        let new = self.new_volume("ec2:CopyVolumes", call.volume_type.as_deref(), encrypted);
        let mut checks = self.tagged(new, "CopyVolumes", &call.tag_specifications, "volume");
        checks.push(self.about("ec2:CopyVolumes", source));
        let key = call.kms_key_id.as_deref().filter(|_| !of_source);
        checks.extend(self.keys_of_creation(self.key_of(key, encrypted), Some(source)));
        checks
    }

    fn create_snapshot(&self, call: &CreateSnapshot) -> Vec<Check> {
        let new = self.at(Check::new("ec2:CreateSnapshot", self.arn("snapshot", "*")));
        let mut checks = self.tagged(new, "CreateSnapshot", &call.tag_specifications, "snapshot");
        checks.push(self.about("ec2:CreateSnapshot", &call.volume_id));
        checks
    }

    fn attach(&self, call: &AttachVolume) -> Vec<Check> {
        let mut checks = vec![self.about("ec2:AttachVolume", &call.volume_id)];
        checks.push(self.about("ec2:AttachVolume", &call.instance_id));
        let key = self.known.facts(&call.volume_id).and_then(|facts| facts.customer_key);
        checks.extend(key.into_iter().flat_map(|key| self.key(&["kms:CreateGrant", "kms:Decrypt"], &key)));
        checks
    }

    /// Returns the checks for the parts of an instance that the simulator models, and for the subnet and group that
    /// every instance has.
    fn launch(&self, call: &RunInstances) -> Vec<Check> {
        let region = self.known.region();
        let image = format!("arn:aws:ec2:{region}::image/{}", call.image_id.as_deref().unwrap_or("*"));
        let others = ["network-interface", "security-group", "subnet"].map(|kind| self.arn(kind, "*"));
        let plain = std::iter::once(image).chain(others).map(|arn| self.at(Check::new("ec2:RunInstances", arn)));
        let mut checks: Vec<Check> = plain.collect();
        let tags = &call.tag_specifications;
        let instance = self.at(Check::new("ec2:RunInstances", self.arn("instance", "*")));
        checks.extend(self.tagged(instance, "RunInstances", tags, "instance"));
        let volume = self.at(Check::new("ec2:RunInstances", self.arn("volume", "*")));
        checks.extend(self.tagged(volume, "RunInstances", tags, "volume"));
        let snapshots = call.block_device_mappings.iter().filter_map(|mapping| mapping.snapshot_id.as_deref());
        checks.extend(snapshots.map(|id| self.about("ec2:RunInstances", id)));
        checks
    }

    fn arn(&self, kind: &str, id: &str) -> String {
        let account = if kind == "snapshot" { "" } else { self.known.account() };
        format!("arn:aws:ec2:{}:{account}:{kind}/{id}", self.known.region())
    }

    fn at(&self, check: Check) -> Check {
        check.with("aws:RequestedRegion", self.known.region()).with("ec2:Region", self.known.region())
    }

    fn each_named(&self, call: &Call) -> Vec<Check> {
        let mut checks = Vec::new();
        call.each_name(&mut |id| checks.push(self.about(call.permission(), id)));
        checks
    }

    fn about(&self, action: &'static str, id: &str) -> Check {
        let kind = match id.split_once('-').map(|(kind, _)| kind) {
            Some("snap") => "snapshot",
            Some("i") => "instance",
            // Treat an invalid id as a volume: EC2 rejects it later.
            _ => "volume",
        };
        let mut check = self.at(Check::new(action, self.arn(kind, id)));
        let Some(facts) = self.known.facts(id) else {
            check.resource_tags = ResourceTags::NoSuchResource;
            return check;
        };
        if kind == "volume" {
            check = check.with("ec2:Encrypted", facts.encrypted.to_string());
        }
        for (attribute, value) in [("ec2:VolumeType", facts.volume_type), ("ec2:AvailabilityZone", facts.zone)] {
            check = value.into_iter().fold(check, |check, value| check.with(attribute, value));
        }
        check.with_resource_tags(facts.tags)
    }

    fn new_volume(&self, action: &'static str, volume_type: Option<&str>, encrypted: bool) -> Check {
        let check = self.at(Check::new(action, self.arn("volume", "*")));
        check.with("ec2:VolumeType", volume_type.unwrap_or("gp2")).with("ec2:Encrypted", encrypted.to_string())
    }

    /// Returns a check for creating a resource with its tags. If it has tags, also returns a check for the permission
    /// to tag it.
    fn tagged(
        &self,
        new: Check,
        create_action: &'static str,
        specifications: &[TagSpecification],
        kind: &str,
    ) -> Vec<Check> {
        let tags = specifications.iter().filter(|s| s.resource_type == kind).flat_map(|s| &s.tags).cloned();
        let tags: Vec<Tag> = tags.collect();
        if tags.is_empty() {
            return vec![new];
        }
        let tagging = self.at(Check::new("ec2:CreateTags", new.arn.clone())).created_by(create_action);
        vec![new.with_request_tags(&pairs(&tags)), tagging.with_request_tags(&pairs(&tags))]
    }

    /// Returns the customer key of a new volume, unless the volume inherits the key of its source.
    fn key_of(&self, given: Option<&str>, asked: bool) -> Option<String> {
        given.map_or_else(|| self.known.default_customer_key(asked), |key| self.known.customer_key(key))
    }

    /// Returns the checks for the customer keys of a new volume: its own key, and the key of its source.
    fn keys_of_creation(&self, own: Option<String>, source: Option<&str>) -> Vec<Check> {
        let of_source = source.and_then(|id| self.known.facts(id)).and_then(|facts| facts.customer_key);
        let of_volume = own.or_else(|| of_source.clone());
        let mut checks: Vec<Check> = of_source.iter().flat_map(|key| self.key(&["kms:Decrypt"], key)).collect();
        let make = ["kms:CreateGrant", "kms:GenerateDataKeyWithoutPlaintext"];
        checks.extend(of_volume.iter().flat_map(|key| self.key(&make, key)));
        checks
    }

    fn key(&self, actions: &[&'static str], arn: &str) -> Vec<Check> {
        let through = format!("ec2.{}.amazonaws.com", self.known.region());
        let check = |action: &&'static str| {
            let check = self.at(Check::new(action, arn.to_owned()));
            check.with("kms:GrantIsForAWSResource", "true").with("kms:ViaService", through.clone())
        };
        actions.iter().map(check).collect()
    }
}
