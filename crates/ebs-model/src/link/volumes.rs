//! Volumes.

use ebs_ec2::{
    Action, AttachmentState, CopyVolume, CreateVolume, Ec2, Modification, ModifyVolume, Page, PageRequest, Result,
    Volume, VolumeQuery, VolumeStatus, Volumes,
};
use ebs_types::{DriverName, Gib, Tags, VolumeId};

use super::{Link, Subject, Trip};
use crate::field::What;
use crate::planted::Planted;

fn created(volume: &Volume, of: &Subject) -> What {
    What::Created { name: of.name.clone(), id: volume.id.to_string() }
}

fn name_of(tags: &Tags) -> Subject {
    let name = tags.get(DriverName::VOLUME_NAME_TAG).cloned().unwrap_or_default();
    Subject { name, other: String::new() }
}

fn of(name: impl ToString) -> Subject {
    Subject { name: name.to_string(), other: String::new() }
}

impl<E: Ec2> Link<E> {
    /// What the planted bugs make of a description.
    fn bent(&self, page: Page<Volume>) -> Page<Volume> {
        let Some(bug) = self.field.planted else { return page };
        let mut page = page;
        for volume in &mut page.items {
            match bug {
                Planted::AttachmentsUnseen => volume.attachments.clear(),
                Planted::DetachingIsDetached => {
                    volume.attachments.retain(|a| a.state != AttachmentState::Detaching);
                }
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

impl<E: Ec2> Volumes for Link<E> {
    async fn create_volume(&self, request: &CreateVolume) -> Result<Volume> {
        let (ec2, mut request) = (self.ec2(), request.clone());
        let fate = self.fate_of_creation(&request.client_token, request.dry_run);
        if self.field.is_planted(Planted::TokenForEachCall) {
            request.client_token = format!("{}-{}", &request.client_token[..40], self.field.elapsed().as_millis());
        }
        let trip = Trip {
            dry: request.dry_run,
            fate: Some(fate),
            ..Trip::change(Action::CreateVolume, name_of(&request.tags), created)
        };
        if self.field.is_planted(Planted::TagsDropped) {
            request.tags.retain(|key, _| key != "team");
        }
        self.make(trip, Box::pin(async move { ec2.create_volume(&request).await })).await
    }

    async fn copy_volume(&self, request: &CopyVolume) -> Result<Volume> {
        let (ec2, request) = (self.ec2(), request.clone());
        let trip = Trip::change(Action::CopyVolumes, name_of(&request.tags), created);
        self.make(trip, Box::pin(async move { ec2.copy_volume(&request).await })).await
    }

    async fn delete_volume(&self, id: &VolumeId) -> Result<()> {
        let (ec2, id) = (self.ec2(), id.clone());
        if self.field.is_planted(Planted::DeleteForgotten) {
            return Ok(());
        }
        let trip = Trip::change(Action::DeleteVolume, of(&id), |(), _| What::Other);
        self.make(trip, Box::pin(async move { ec2.delete_volume(&id).await })).await
    }

    async fn describe_volumes(&self, query: &VolumeQuery, page: &PageRequest) -> Result<Page<Volume>> {
        let (ec2, query, page) = (self.ec2(), query.clone(), page.clone());
        let trip = Trip { subject: of(format!("{query:?}")), ..Trip::ask(Action::DescribeVolumes) };
        let answer = self.make(trip, Box::pin(async move { ec2.describe_volumes(&query, &page).await })).await;
        answer.map(|page| self.bent(page))
    }

    async fn modify_volume(&self, request: &ModifyVolume) -> Result<Modification> {
        let (ec2, request) = (self.ec2(), request.clone());
        let trip = Trip::change(Action::ModifyVolume, of(&request.volume), |_, _| What::Other);
        self.make(trip, Box::pin(async move { ec2.modify_volume(&request).await })).await
    }

    async fn describe_modifications(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<Modification>> {
        let (ec2, volumes, page) = (self.ec2(), volumes.to_vec(), page.clone());
        let trip = Trip { subject: of(format!("{volumes:?}")), ..Trip::ask(Action::DescribeVolumesModifications) };
        self.make(trip, Box::pin(async move { ec2.describe_modifications(&volumes, &page).await })).await
    }

    async fn describe_volume_status(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<VolumeStatus>> {
        let (ec2, volumes, page) = (self.ec2(), volumes.to_vec(), page.clone());
        let trip = Trip::ask(Action::DescribeVolumeStatus);
        self.make(trip, Box::pin(async move { ec2.describe_volume_status(&volumes, &page).await })).await
    }

    async fn create_tags(&self, resource: &str, tags: &Tags) -> Result<()> {
        let (ec2, resource, tags) = (self.ec2(), resource.to_owned(), tags.clone());
        let trip = Trip::change(Action::CreateTags, of(&resource), |(), _| What::Other);
        self.make(trip, Box::pin(async move { ec2.create_tags(&resource, &tags).await })).await
    }

    async fn delete_tags(&self, resource: &str, keys: &[String]) -> Result<()> {
        let (ec2, resource, keys) = (self.ec2(), resource.to_owned(), keys.to_vec());
        let trip = Trip::change(Action::DeleteTags, of(&resource), |(), _| What::Other);
        self.make(trip, Box::pin(async move { ec2.delete_tags(&resource, &keys).await })).await
    }
}
