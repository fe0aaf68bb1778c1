//! The common parts of all describe actions: ids or filters, pages, and the values that filters compare.

use std::collections::BTreeSet;

use ebs_ec2::Tags;

use crate::api::{Fault, Filter, Page};

use super::faults::{invalid_combination, invalid_value};
use super::filters::{self, Filterable, Matcher};
use super::ids::Kind;
use super::model::{Attachment, Instance, Snapshot, Volume, hypervisor};
use super::paging::PageSpec;

#[derive(Debug, Clone)]
pub(super) struct Query<'a> {
    action: &'static str,
    pub(super) ids: &'a [String],
    filters: &'a [Filter],
    matchers: Vec<Matcher<'a>>,
    page: PageSpec<'a>,
}

impl<'a> Query<'a> {
    pub(super) fn of(action: &'static str, ids: &'a [String], filters: &'a [Filter]) -> Self {
        Self { action, ids, filters, matchers: filters.iter().map(Matcher::of).collect(), page: PageSpec::default() }
    }

    pub(super) fn page(mut self, max_results: Option<i64>, next_token: Option<&'a str>) -> Self {
        self.page = PageSpec { max_results, next_token, ..self.page };
        self
    }

    /// Sets whether a full last page has a token.
    pub(super) fn with_tokens_after_full_pages(mut self, with: bool) -> Self {
        self.page.token_after_full_page = with;
        self
    }

    /// Sets the page for an action with a different minimum page size.
    pub(super) fn page_from(mut self, least: i64, max_results: Option<i64>, next_token: Option<&'a str>) -> Self {
        self.page = PageSpec { least, max_results, next_token, ..self.page };
        self
    }

    /// Rejects invalid ids, ids combined with paging, and filters that the action does not have.
    pub(super) fn check(&self, kind: Kind) -> Result<(), Fault> {
        check_count(self.ids)?;
        self.ids.iter().try_for_each(|id| kind.check_listed(id))?;
        self.check_pages(kind.set_name())
    }

    /// Checks a list like [`Self::check`], but not its ids. `set` is EC2's name for the list of ids.
    pub(super) fn check_pages(&self, set: &str) -> Result<(), Fault> {
        if !self.ids.is_empty() && self.page.max_results.is_some_and(|n| n != 0) {
            let message = format!("The parameter {set} cannot be used with the parameter maxResults");
            return Err(invalid_combination(message));
        }
        self.page.check()?;
        filters::check(self.action, self.filters)
    }

    pub(super) fn wants(&self, id: &str, object: &dyn Filterable) -> bool {
        (self.ids.is_empty() || self.ids.iter().any(|i| i == id)) && self.matchers.iter().all(|m| m.matches(object))
    }

    /// Returns the only ids that an object of this query can have, if a filter of this name lists ids without
    /// wildcards.
    pub(super) fn filtered_ids(&self, filter: &str) -> Option<BTreeSet<&'a str>> {
        self.matchers.iter().find_map(|m| m.literals_of(filter)).map(|ids| ids.iter().copied().collect())
    }

    pub(super) fn paged<T>(
        &self,
        items: impl Iterator<Item = T>,
        key: impl Fn(&T) -> String,
    ) -> Result<Page<T>, Fault> {
        let scope = format!("{} {:?}", self.action, self.filters);
        self.page.cut(items.collect(), &scope, key)
    }
}

fn on_each<T>(items: &[T], f: impl Fn(&T) -> String) -> Vec<String> {
    items.iter().map(f).collect()
}

fn optional<T: ToString>(value: Option<&T>) -> Vec<String> {
    value.map(ToString::to_string).into_iter().collect()
}

fn time(at: std::time::SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}

impl Filterable for Volume {
    fn field(&self, name: &str) -> Vec<String> {
        let attachments = |f: fn(&Attachment) -> String| on_each(&self.attachments, f);
        match name {
            "volume-id" => vec![self.id.clone()],
            "status" => vec![self.state().to_owned()],
            "availability-zone" => vec![self.zone.clone()],
            "availability-zone-id" => vec![self.zone_id.clone()],
            "size" => vec![self.size_gib.to_string()],
            "volume-type" => vec![self.volume_type.to_string()],
            "snapshot-id" => optional(self.snapshot_id.as_ref()),
            "source-volume-id" => optional(self.source_volume_id.as_ref()),
            "encrypted" => vec![self.encrypted.to_string()],
            "multi-attach-enabled" => vec![self.multi_attach.to_string()],
            "create-time" => vec![time(self.created)],
            "operator.managed" => vec!["false".to_owned()],
            "fast-restored" => vec![self.fast_restored.to_string()],
            "attachment.instance-id" => attachments(|a| a.instance_id.clone()),
            "attachment.device" => attachments(|a| a.device.clone()),
            "attachment.status" => attachments(|a| a.state().to_owned()),
            "attachment.attach-time" => attachments(|a| time(a.attach_time)),
            "attachment.delete-on-termination" => attachments(|a| a.delete_on_termination.to_string()),
            _ => Vec::new(),
        }
    }

    fn tags(&self) -> &Tags {
        &self.tags
    }
}

pub(super) struct Modified<'a>(pub(super) &'a Volume);

impl Filterable for Modified<'_> {
    fn field(&self, name: &str) -> Vec<String> {
        let Some(m) = self.0.describe_modification() else { return Vec::new() };
        match name {
            "volume-id" => vec![m.volume_id],
            "modification-state" => vec![m.state],
            "original-size" => vec![m.original.size_gib.to_string()],
            "original-iops" => optional(m.original.iops.as_ref()),
            "original-volume-type" => vec![m.original.volume_type.to_string()],
            "originalMultiAttachEnabled" => vec![m.original.multi_attach.to_string()],
            "target-size" => vec![m.target.size_gib.to_string()],
            "target-iops" => optional(m.target.iops.as_ref()),
            "target-volume-type" => vec![m.target.volume_type.to_string()],
            "targetMultiAttachEnabled" => vec![m.target.multi_attach.to_string()],
            "start-time" => vec![time(m.start_time)],
            _ => Vec::new(),
        }
    }

    fn tags(&self) -> &Tags {
        &self.0.tags
    }
}

pub(super) struct Owned<'a>(pub(super) &'a Snapshot, pub(super) &'a str);

impl Filterable for Owned<'_> {
    fn field(&self, name: &str) -> Vec<String> {
        let Self(snapshot, owner) = self;
        match name {
            "snapshot-id" => vec![snapshot.id.clone()],
            "volume-id" => vec![snapshot.volume_id.clone()],
            "status" => vec![snapshot.state().to_owned()],
            "owner-id" => vec![(*owner).to_owned()],
            "description" => vec![snapshot.description.clone()],
            "encrypted" => vec![snapshot.encrypted.to_string()],
            "volume-size" => vec![snapshot.size_gib.to_string()],
            "start-time" => vec![time(snapshot.started)],
            "progress" => vec![if snapshot.state() == "completed" { "100%" } else { "0%" }.to_owned()],
            "transfer-type" => vec!["standard".to_owned()],
            "storage-tier" => vec!["standard".to_owned()],
            _ => Vec::new(),
        }
    }

    fn tags(&self) -> &Tags {
        &self.0.tags
    }
}

pub(super) struct Equipped<'a> {
    pub(super) instance: &'a Instance,
    pub(super) attachments: Vec<(&'a str, &'a Attachment)>,
    pub(super) owner: &'a str,
}

impl Filterable for Equipped<'_> {
    fn field(&self, name: &str) -> Vec<String> {
        let i = self.instance;
        match name {
            "instance-id" => vec![i.id.clone()],
            "availability-zone" => vec![i.zone.clone()],
            "availability-zone-id" => vec![i.zone_id.clone()],
            "instance-type" => vec![i.instance_type.clone()],
            "instance-state-name" => vec![i.state().0.to_owned()],
            "instance-state-code" => vec![i.state().1.to_string()],
            "hypervisor" => vec![hypervisor(&i.instance_type).to_owned()],
            "owner-id" => vec![self.owner.to_owned()],
            "private-ip-address" => vec![i.private_ip().to_owned()],
            "private-dns-name" => vec![i.private_dns_name()],
            "reservation-id" => vec![i.reservation_id.clone()],
            "root-device-type" => vec!["ebs".to_owned()],
            "architecture" => vec!["x86_64".to_owned()],
            "virtualization-type" => vec!["hvm".to_owned()],
            "image-id" => vec![i.image_id.clone()],
            "launch-time" => vec![time(i.launch_time)],
            "network-interface.network-interface-id" => on_each(&i.interfaces, |n| n.id.clone()),
            "network-interface.mac-address" => on_each(&i.interfaces, |n| n.mac_address.clone()),
            "network-interface.addresses.private-ip-address" | "network-interface.private-ip-address" => {
                on_each(&i.interfaces, |n| n.private_ip.clone())
            }
            "block-device-mapping.attach-time" => on_each(&self.attachments, |(_, a)| time(a.attach_time)),
            "block-device-mapping.delete-on-termination" => {
                on_each(&self.attachments, |(_, a)| a.delete_on_termination.to_string())
            }
            "root-device-name" => vec![i.root_device.clone()],
            "block-device-mapping.volume-id" => on_each(&self.attachments, |(volume, _)| (*volume).to_owned()),
            "block-device-mapping.device-name" => on_each(&self.attachments, |(_, a)| a.device.clone()),
            "block-device-mapping.status" => on_each(&self.attachments, |(_, a)| a.state().to_owned()),
            _ => Vec::new(),
        }
    }

    fn tags(&self) -> &Tags {
        &self.instance.tags
    }
}

/// Rejects a list with more ids than EC2 accepts in one call.
fn check_count(ids: &[String]) -> Result<(), Fault> {
    const MOST: usize = 1000;
    if ids.len() > MOST {
        return Err(invalid_value(format!("{} ids in one call are too many: at most {MOST}.", ids.len())));
    }
    Ok(())
}
