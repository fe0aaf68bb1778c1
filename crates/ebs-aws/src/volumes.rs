//! The port's calls about volumes. Each method makes one call.

use ebs_ec2::{
    Action, CopyVolume, CreateVolume, Modification, ModifyVolume, Page, PageRequest, Place, Result, Tags, Volume,
    VolumeId, VolumeQuery, VolumeStatus, Volumes,
};

use crate::AwsEc2;
use crate::convert::{about, only, volume as convert};
use crate::query::Query;
use crate::reply::Incomplete;

impl Volumes for AwsEc2 {
    async fn create_volume(&self, request: &CreateVolume) -> Result<Volume> {
        let query = Query::new(Action::CreateVolume);
        let query = match &request.place {
            Place::Zone(name) => query.with("AvailabilityZone", name),
            Place::ZoneId(id) => query.with("AvailabilityZoneId", id),
        };
        let query = query
            .with("ClientToken", &request.client_token)
            .number("Size", request.size.0)
            .with("VolumeType", request.volume_type.as_str())
            .with("MultiAttachEnabled", request.multi_attach)
            .with("Encrypted", request.encrypted || request.kms_key_id.is_some())
            .number("Iops", request.iops)
            .number("Throughput", request.throughput)
            .maybe("KmsKeyId", request.kms_key_id.as_ref())
            .maybe("SnapshotId", request.snapshot.as_ref())
            .number("VolumeInitializationRate", request.initialization_rate)
            .maybe("OutpostArn", request.outpost_arn.as_ref())
            .tags_of("volume", &request.tags)
            .maybe_dry_run(request.dry_run);
        self.ask(query, convert::volume, |volume, said_at| Ok(Volume { said_at, ..volume })).await
    }

    async fn copy_volume(&self, request: &CopyVolume) -> Result<Volume> {
        let query = Query::new(Action::CopyVolumes)
            .with("ClientToken", &request.client_token)
            .with("SourceVolumeId", &request.source)
            .number("Size", request.size.0)
            .with("VolumeType", request.volume_type.as_str())
            .with("MultiAttachEnabled", request.multi_attach)
            .number("Iops", request.iops)
            .number("Throughput", request.throughput)
            // Send these parameters only if requested: a region without support for them rejects the request.
            .maybe("Encrypted", request.encrypted.then_some(true))
            .maybe("KmsKeyId", request.kms_key_id.as_ref())
            .tags_of("volume", &request.tags);
        let copy = |mut volumes: Vec<Volume>, said_at| match (volumes.pop(), volumes.len()) {
            (Some(volume), 0) => Ok(Volume { said_at, ..volume }),
            (None, _) => Err(Incomplete::lacks("volume")),
            (Some(_), more) => Err(Incomplete(format!("it contains {} volumes for one copy", more + 1))),
        };
        self.ask(query, convert::copies, copy).await
    }

    async fn delete_volume(&self, id: &VolumeId) -> Result<()> {
        self.order(Query::new(Action::DeleteVolume).with("VolumeId", id)).await
    }

    async fn describe_volumes(&self, query: &VolumeQuery, page: &PageRequest) -> Result<Page<Volume>> {
        let request = Query::new(Action::DescribeVolumes);
        // EC2 treats an empty list of ids or values as "all".
        let request = match query {
            VolumeQuery::FilterIds(ids) if ids.is_empty() => return Ok(Page { items: vec![], next: None }),
            VolumeQuery::Tag { values, .. } if values.is_empty() => return Ok(Page { items: vec![], next: None }),
            VolumeQuery::FilterIds(ids) => request.filter("volume-id", ids.iter().map(VolumeId::as_str)),
            VolumeQuery::Tag { key, values } => request.filter(&format!("tag:{key}"), values),
        };
        self.ask(request.page(page), convert::volumes, |mut page, said_at| {
            page.items.iter_mut().flat_map(|v| &mut v.attachments).for_each(|a| a.said_at = said_at);
            match query {
                VolumeQuery::FilterIds(ids) => only(page, |v| &v.id, ids),
                VolumeQuery::Tag { .. } => Ok(page),
            }
        })
        .await
    }

    async fn modify_volume(&self, request: &ModifyVolume) -> Result<Modification> {
        let query = Query::new(Action::ModifyVolume)
            .with("VolumeId", &request.volume)
            .number("Size", request.size.map(|size| size.0))
            .maybe("VolumeType", request.volume_type.as_ref().map(|volume_type| volume_type.as_str()))
            .number("Iops", request.iops)
            .number("Throughput", request.throughput);
        self.ask(query, convert::modified, |m, _| about(&m.volume, &request.volume).map(|()| m)).await
    }

    async fn describe_modifications(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<Modification>> {
        if volumes.is_empty() {
            return Ok(Page { items: vec![], next: None });
        }
        let query = Query::new(Action::DescribeVolumesModifications)
            .filter("volume-id", volumes.iter().map(VolumeId::as_str))
            .page(page);
        self.ask(query, convert::modifications, |page, _| only(page, |m| &m.volume, volumes)).await
    }

    async fn describe_volume_status(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<VolumeStatus>> {
        if volumes.is_empty() {
            // EC2 treats an empty list of ids as "all".
            return Ok(Page { items: vec![], next: None });
        }
        let query =
            Query::new(Action::DescribeVolumeStatus).list("VolumeId", volumes).maybe("NextToken", page.token.as_ref());
        self.ask(query, convert::statuses, |page, _| only(page, |s| &s.volume, volumes)).await
    }

    async fn create_tags(&self, resource: &str, tags: &Tags) -> Result<()> {
        self.order(Query::new(Action::CreateTags).list("ResourceId", [resource]).tags("Tag", tags)).await
    }

    async fn delete_tags(&self, resource: &str, keys: &[String]) -> Result<()> {
        if keys.is_empty() {
            // Without keys, EC2 would delete every tag of the resource.
            return Ok(());
        }
        self.order(Query::new(Action::DeleteTags).list("ResourceId", [resource]).tag_keys(keys)).await
    }
}
