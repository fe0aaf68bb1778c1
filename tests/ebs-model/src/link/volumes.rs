//! Volumes.

use std::time::Duration;

use ebs_ec2::{
    Action, AttachmentState, CopyVolume, CreateVolume, DriverName, Ec2, Gib, Modification, ModifyVolume, Page,
    PageRequest, Place, Result, Tags, Volume, VolumeId, VolumeQuery, VolumeState, VolumeStatus, VolumeType, Volumes,
    ZoneName,
};

use super::attachments::LATER;
use super::{Creation, Ec2Call, Link, Subject, of};
use crate::classes::{NO_THROUGHPUT, tier_tag};
use crate::network::EventKind;
use crate::planted::Planted;

const OLD_LIMIT: u32 = 16_000;
/// The longest time that EC2 takes to complete a modification.
const UNTIL_THE_NEXT: Duration = Duration::from_secs(200);

fn created(volume: &Volume, of: &Subject) -> EventKind {
    EventKind::Created { name: of.name.clone(), id: volume.id.to_string() }
}

fn name_of(tags: &Tags) -> Subject {
    of(tags.get(DriverName::VOLUME_NAME_TAG).map_or("", String::as_str))
}

impl<E: Ec2> Link<E> {
    /// Makes a page of descriptions show failed volumes and the effects of planted bugs.
    fn falsified(&self, mut page: Page<Volume>) -> Page<Volume> {
        for volume in &mut page.items {
            if volume.state == VolumeState::Available && self.network.facts().broken.contains(volume.id.as_str()) {
                volume.state = VolumeState::Error;
            }
        }
        let Some(bug) = self.network.planted else { return page };
        for volume in &mut page.items {
            match bug {
                Planted::DetachingIsDetached => {
                    volume.attachments.retain(|a| a.state != AttachmentState::Detaching);
                }
                Planted::CreatingIsUsable if volume.state == VolumeState::Creating => {
                    volume.state = VolumeState::Available;
                }
                Planted::RatioUnseen => volume.tags.retain(|key, _| !key.ends_with("IOPSPerGb")),
                Planted::SizeAhead => volume.size = Gib(volume.size.0 + 1),
                Planted::OwnershipUnseen => {
                    let managed = DriverName::default().managed_tag();
                    volume.tags.retain(|key, _| !key.contains("cluster") && *key != managed);
                    volume.tags.extend(crate::content::ownership());
                }
                Planted::WrongDevice => {
                    for attachment in &mut volume.attachments {
                        attachment.device = Some(crate::content::some_device());
                    }
                }
                _ => {}
            }
        }
        page
    }
}

impl<E: Ec2> Link<E> {
    fn falsify(&self, request: &mut CreateVolume) {
        match self.network.planted {
            Some(Planted::TokenForEachCall) => {
                let at = self.network.elapsed().as_millis();
                request.client_token = format!("{}-{at}", &request.client_token[..40]);
            }
            Some(Planted::TagsDropped) => request.tags.retain(|key, _| key != "team"),
            Some(Planted::NameDropped) => request.tags.retain(|key, _| key != DriverName::VOLUME_NAME_TAG),
            Some(Planted::ZoneIgnored) => {
                request.place = Place::Zone(ZoneName::parse("us-west-2c").expect("a name of a zone"));
            }
            Some(Planted::SizeCut) => request.size = Gib(request.size.0 - 1),
            Some(Planted::SharingForgotten) => request.multi_attach = false,
            Some(Planted::TypeForgotten) => {
                (request.volume_type, request.iops, request.throughput) = (VolumeType::Gp2, None, None);
                request.multi_attach = false;
            }
            Some(Planted::SourceForgotten) => request.snapshot = None,
            Some(Planted::EncryptionForgotten) => (request.encrypted, request.kms_key_id) = (false, None),
            Some(Planted::IopsGuessed) if !request.dry_run => request.iops = self.guessed(request.iops),
            _ => {}
        }
    }

    /// Planted bug: a policy that uses an old IOPS limit if the current one is unknown.
    fn guessed(&self, iops: Option<u32>) -> Option<u32> {
        if self.process.knows_no_maximum() { iops.map(|iops| iops.min(OLD_LIMIT)) } else { iops }
    }

    /// Planted bug: a policy that repeats a creation on its own.
    fn create_again_later(&self, request: &CreateVolume) {
        let (ec2, mut request) = (self.ec2(), request.clone());
        request.client_token = format!("{}-again", &request.client_token[..40]);
        let subject = name_of(&request.tags);
        let again = Box::pin(async move { ec2.create_volume(&request).await });
        let record = (tokio::time::Instant::now(), created as fn(&Volume, &Subject) -> EventKind, subject);
        let carried = self.carried(Action::CreateVolume, record, again);
        self.call_later(LATER, async move { drop(carried.await) });
    }

    /// Makes one ModifyVolume call. A driver has at most one in flight for each volume.
    async fn modify_once(&self, request: &ModifyVolume) -> Result<Modification> {
        let (ec2, request) = (self.ec2(), request.clone());
        let volume = request.volume.to_string();
        if !self.process.begins_to_modify(&volume) {
            self.network
                .violated(format!("driver {} sends two concurrent ModifyVolume calls for {volume}", self.process.id));
        }
        let ec2_call = self.change_of(Action::ModifyVolume, &volume, |_, _| EventKind::Other);
        let modified = self.make(ec2_call, Box::pin(async move { ec2.modify_volume(&request).await })).await;
        self.process.has_modified(&volume);
        modified
    }

    /// Planted bug: a policy that writes the tags of a class before EC2 has accepted the class.
    async fn tag_before(&self, request: &ModifyVolume) {
        let Some(serial) = request.throughput.and_then(|t| u64::from(t).checked_sub(NO_THROUGHPUT)) else { return };
        let _nobody_hears = self.ec2().create_tags(request.volume.as_str(), &tier_tag(serial)).await;
    }

    /// Planted bug: a policy that undoes a modification as soon as EC2 accepts the next one.
    fn change_back_later(&self, volume: &VolumeId) {
        let ec2 = self.ec2();
        let request = ModifyVolume {
            volume: volume.clone(),
            size: None,
            volume_type: Some(VolumeType::Gp3),
            iops: Some(3000),
            throughput: Some(150),
        };
        self.call_later(UNTIL_THE_NEXT, async move { drop(ec2.modify_volume(&request).await) });
    }

    /// Planted bug: a policy that identifies volumes by name only.
    async fn delete_by_name(&self, id: &VolumeId) {
        let query = VolumeQuery::FilterIds(vec![id.clone()]);
        let Ok(found) = self.ec2.describe_volumes(&query, &PageRequest::default()).await else { return };
        let names = found.items.iter().filter_map(|v| v.csi_name().map(ToString::to_string)).collect();
        let query = VolumeQuery::Tag { key: DriverName::VOLUME_NAME_TAG.to_owned(), values: names };
        let Ok(found) = self.ec2.describe_volumes(&query, &PageRequest::default()).await else { return };
        for other in found.items.iter().filter(|v| v.id != *id) {
            let _nobody_hears = self.ec2.delete_volume(&other.id).await;
        }
    }
}

impl<E: Ec2> Volumes for Link<E> {
    async fn create_volume(&self, request: &CreateVolume) -> Result<Volume> {
        let (ec2, mut request) = (self.ec2(), request.clone());
        let creation = Creation {
            token: &request.client_token,
            dry: request.dry_run,
            encrypted: request.encrypted,
            source: request.snapshot.as_ref().map(ebs_ec2::SnapshotId::as_str),
        };
        let outcome = self.outcome_of_creation(Action::CreateVolume, &creation);
        self.falsify(&mut request);
        if self.network.is_planted(Planted::CreateTwice) && !request.dry_run {
            self.create_again_later(&request);
        }
        let ec2_call = Ec2Call {
            dry: request.dry_run,
            outcome: Some(outcome),
            ..Ec2Call::change(Action::CreateVolume, name_of(&request.tags), created)
        };
        let dry_run = request.dry_run;
        let answer = self.make(ec2_call, Box::pin(async move { ec2.create_volume(&request).await })).await;
        if dry_run {
            self.process.record_dry_run(answer.as_ref().is_err_and(|e| e.message.contains("maximum is")));
        }
        answer
    }

    async fn copy_volume(&self, request: &CopyVolume) -> Result<Volume> {
        let (ec2, request) = (self.ec2(), request.clone());
        let creation = Creation {
            token: &request.client_token,
            dry: false,
            encrypted: false,
            source: Some(request.source.as_str()),
        };
        let outcome = Some(self.outcome_of_creation(Action::CopyVolumes, &creation));
        let ec2_call = Ec2Call { outcome, ..Ec2Call::change(Action::CopyVolumes, name_of(&request.tags), created) };
        self.make(ec2_call, Box::pin(async move { ec2.copy_volume(&request).await })).await
    }

    async fn delete_volume(&self, id: &VolumeId) -> Result<()> {
        let (ec2, id) = (self.ec2(), id.clone());
        if self.network.is_planted(Planted::DeleteForgotten) {
            return Ok(());
        }
        if self.network.is_planted(Planted::DeleteByName) {
            self.delete_by_name(&id).await;
        }
        let gone = |_: &(), of: &Subject| EventKind::Gone { id: of.name.clone() };
        let ec2_call = self.change_of(Action::DeleteVolume, id.as_str(), gone);
        self.make(ec2_call, Box::pin(async move { ec2.delete_volume(&id).await })).await
    }

    async fn describe_volumes(&self, query: &VolumeQuery, page: &PageRequest) -> Result<Page<Volume>> {
        let (ec2, query, page) = (self.ec2(), query.clone(), page.clone());
        if matches!(query, VolumeQuery::Tag { .. }) && self.network.is_planted(Planted::VolumesUnseen) {
            return Ok(Page { items: Vec::new(), next: None });
        }
        let ec2_call = Ec2Call { subject: of(format!("{query:?}")), ..Ec2Call::ask(Action::DescribeVolumes) };
        let answer = self.make(ec2_call, Box::pin(async move { ec2.describe_volumes(&query, &page).await })).await;
        answer.map(|page| self.falsified(page))
    }

    async fn modify_volume(&self, request: &ModifyVolume) -> Result<Modification> {
        if self.network.is_planted(Planted::RefusedIsTagged) {
            self.tag_before(request).await;
        }
        let again = async {
            if self.network.is_planted(Planted::ModifyBeside) {
                let _nobody_hears = self.modify_once(request).await;
            }
        };
        let (modified, ()) = tokio::join!(self.modify_once(request), again);
        if modified.is_ok() && self.network.is_planted(Planted::ChangedBack) {
            self.change_back_later(&request.volume);
        }
        modified
    }

    async fn describe_modifications(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<Modification>> {
        let (ec2, volumes, page) = (self.ec2(), volumes.to_vec(), page.clone());
        let ec2_call =
            Ec2Call { subject: of(format!("{volumes:?}")), ..Ec2Call::ask(Action::DescribeVolumesModifications) };
        self.make(ec2_call, Box::pin(async move { ec2.describe_modifications(&volumes, &page).await })).await
    }

    async fn describe_volume_status(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<VolumeStatus>> {
        let (ec2, volumes, page) = (self.ec2(), volumes.to_vec(), page.clone());
        let ec2_call = Ec2Call::ask(Action::DescribeVolumeStatus);
        self.make(ec2_call, Box::pin(async move { ec2.describe_volume_status(&volumes, &page).await })).await
    }

    async fn create_tags(&self, resource: &str, tags: &Tags) -> Result<()> {
        let (ec2, resource, tags) = (self.ec2(), resource.to_owned(), tags.clone());
        if self.network.is_planted(Planted::ClassTagsForgotten) {
            return Ok(());
        }
        let ec2_call = self.change_of(Action::CreateTags, &resource, |(), _| EventKind::Other);
        self.make(ec2_call, Box::pin(async move { ec2.create_tags(&resource, &tags).await })).await
    }

    async fn delete_tags(&self, resource: &str, keys: &[String]) -> Result<()> {
        let (ec2, resource, keys) = (self.ec2(), resource.to_owned(), keys.to_vec());
        if self.network.is_planted(Planted::TagsKept) {
            return Ok(());
        }
        let ec2_call = self.change_of(Action::DeleteTags, &resource, |(), _| EventKind::Other);
        self.make(ec2_call, Box::pin(async move { ec2.delete_tags(&resource, &keys).await })).await
    }
}
