//! Volumes through the port.

use ebs_ec2::{
    Action, CopyVolume, CreateVolume, Modification, ModifyVolume, Page, PageRequest, Place, Result, Volume,
    VolumeQuery, VolumeStatus, Volumes,
};
use ebs_types::{Tags, VolumeId};

use crate::api::{self, Call, TagToDelete};

use super::convert::{self, filter, paging, texts};
use super::{SimEc2, call};

impl Volumes for SimEc2 {
    async fn create_volume(&self, request: &CreateVolume) -> Result<Volume> {
        let (zone, zone_id) = match &request.place {
            Place::Zone(name) => (Some(name.to_string()), None),
            Place::ZoneId(id) => (None, Some(id.to_string())),
        };
        let request = api::CreateVolume {
            client_token: Some(request.client_token.clone()),
            availability_zone: zone,
            availability_zone_id: zone_id,
            size: Some(i64::from(request.size.0)),
            volume_type: Some(request.volume_type.to_string()),
            iops: request.iops.map(i64::from),
            throughput: request.throughput.map(i64::from),
            encrypted: Some(request.encrypted),
            kms_key_id: request.kms_key_id.clone(),
            snapshot_id: request.snapshot.as_ref().map(ToString::to_string),
            volume_initialization_rate: request.initialization_rate.map(i64::from),
            multi_attach_enabled: Some(request.multi_attach),
            outpost_arn: request.outpost_arn.clone(),
            tag_specifications: convert::specification("volume", &request.tags),
            dry_run: request.dry_run,
        };
        call!(self, CreateVolume, request).map(|volume| self.dated_volume(convert::volume(volume)))
    }

    async fn copy_volume(&self, request: &CopyVolume) -> Result<Volume> {
        let request = api::CopyVolumes {
            client_token: Some(request.client_token.clone()),
            source_volume_id: request.source.to_string(),
            size: Some(i64::from(request.size.0)),
            volume_type: Some(request.volume_type.to_string()),
            iops: request.iops.map(i64::from),
            throughput: request.throughput.map(i64::from),
            encrypted: request.encrypted.then_some(true),
            kms_key_id: request.kms_key_id.clone(),
            multi_attach_enabled: Some(request.multi_attach),
            tag_specifications: convert::specification("volume", &request.tags),
            dry_run: false,
        };
        call!(self, CopyVolumes, request).map(|mut volumes| self.dated_volume(convert::volume(volumes.remove(0))))
    }

    async fn delete_volume(&self, id: &VolumeId) -> Result<()> {
        let request = api::DeleteVolume { volume_id: id.to_string(), dry_run: false };
        self.make(Action::DeleteVolume, Call::DeleteVolume(request)).await.map(drop)
    }

    async fn describe_volumes(&self, query: &VolumeQuery, page: &PageRequest) -> Result<Page<Volume>> {
        let filters = match query {
            VolumeQuery::FilterIds(ids) => filter("volume-id", texts(ids)),
            VolumeQuery::Tag { key, values } => filter(format!("tag:{key}"), values.clone()),
        };
        let (max_results, next_token) = paging(page);
        let request = api::DescribeVolumes { volume_ids: Vec::new(), filters, max_results, next_token, dry_run: false };
        call!(self, DescribeVolumes, request)
            .map(|listing| convert::dated(convert::page(listing, convert::volume), self.date()))
    }

    async fn modify_volume(&self, request: &ModifyVolume) -> Result<Modification> {
        let request = api::ModifyVolume {
            volume_id: request.volume.to_string(),
            size: request.size.map(|size| i64::from(size.0)),
            volume_type: request.volume_type.as_ref().map(ToString::to_string),
            iops: request.iops.map(i64::from),
            throughput: request.throughput.map(i64::from),
            multi_attach_enabled: None,
            dry_run: false,
        };
        call!(self, ModifyVolume, request).map(convert::modification)
    }

    async fn describe_modifications(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<Modification>> {
        let (max_results, next_token) = paging(page);
        let filters = filter("volume-id", texts(volumes));
        let request = api::DescribeVolumesModifications { filters, max_results, next_token, ..Default::default() };
        call!(self, DescribeVolumesModifications, request).map(|listing| convert::page(listing, convert::modification))
    }

    async fn describe_volume_status(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<VolumeStatus>> {
        if volumes.is_empty() {
            return Ok(Page { items: Vec::new(), next: None });
        }
        let request = api::DescribeVolumeStatus {
            volume_ids: texts(volumes),
            next_token: page.token.clone(),
            ..Default::default()
        };
        call!(self, DescribeVolumeStatus, request).map(|listing| convert::page(listing, convert::volume_status))
    }

    async fn create_tags(&self, resource: &str, tags: &Tags) -> Result<()> {
        let (resources, tags) = (vec![resource.to_owned()], convert::tag_list(tags));
        let request = api::CreateTags { resources, tags, dry_run: false };
        self.make(Action::CreateTags, Call::CreateTags(request)).await.map(drop)
    }

    async fn delete_tags(&self, resource: &str, keys: &[String]) -> Result<()> {
        let request = api::DeleteTags {
            resources: vec![resource.to_owned()],
            tags: keys.iter().map(|key| TagToDelete { key: key.clone(), value: None }).collect(),
            dry_run: false,
        };
        self.make(Action::DeleteTags, Call::DeleteTags(request)).await.map(drop)
    }
}
