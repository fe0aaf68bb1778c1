//! Volumes through the port.

use ebs_ec2::{
    Action, CopyVolume, CreateVolume, Modification, ModifyVolume, Page, PageRequest, Place, Result, Volume,
    VolumeQuery, VolumeStatus, Volumes,
};
use ebs_types::{Tags, VolumeId};

use crate::api::{self, Call, Reply, TagToDelete};

use super::convert::{self, filter, paging, texts};
use super::{SimEc2, unexpected};

impl Volumes for SimEc2 {
    async fn create_volume(&self, request: &CreateVolume) -> Result<Volume> {
        let (zone, zone_id) = match &request.place {
            Place::Zone(name) => (Some(name.to_string()), None),
            Place::ZoneId(id) => (None, Some(id.to_string())),
        };
        let call = api::CreateVolume {
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
        match self.make(Action::CreateVolume, Call::CreateVolume(call)).await? {
            Reply::CreateVolume(volume) => Ok(convert::volume(volume)),
            other => Err(unexpected(Action::CreateVolume, &other)),
        }
    }

    async fn copy_volume(&self, request: &CopyVolume) -> Result<Volume> {
        let call = api::CopyVolumes {
            client_token: Some(request.client_token.clone()),
            source_volume_id: request.source.to_string(),
            size: Some(i64::from(request.size.0)),
            volume_type: Some(request.volume_type.to_string()),
            iops: request.iops.map(i64::from),
            throughput: request.throughput.map(i64::from),
            multi_attach_enabled: Some(request.multi_attach),
            tag_specifications: convert::specification("volume", &request.tags),
            dry_run: false,
        };
        match self.make(Action::CopyVolumes, Call::CopyVolumes(call)).await? {
            Reply::CopyVolumes(mut volumes) if volumes.len() == 1 => Ok(convert::volume(volumes.remove(0))),
            other => Err(unexpected(Action::CopyVolumes, &other)),
        }
    }

    async fn delete_volume(&self, id: &VolumeId) -> Result<()> {
        let call = api::DeleteVolume { volume_id: id.to_string(), dry_run: false };
        self.make(Action::DeleteVolume, Call::DeleteVolume(call)).await.map(drop)
    }

    async fn describe_volumes(&self, query: &VolumeQuery, page: &PageRequest) -> Result<Page<Volume>> {
        let (volume_ids, filters) = match query {
            VolumeQuery::Ids(ids) => (texts(ids), Vec::new()),
            VolumeQuery::FilterIds(ids) => (Vec::new(), filter("volume-id", texts(ids))),
            VolumeQuery::Tag { key, values } => (Vec::new(), filter(format!("tag:{key}"), values.clone())),
            VolumeQuery::All => (Vec::new(), Vec::new()),
        };
        let (max_results, next_token) = paging(page);
        let call = api::DescribeVolumes { volume_ids, filters, max_results, next_token, dry_run: false };
        match self.make(Action::DescribeVolumes, Call::DescribeVolumes(call)).await? {
            Reply::DescribeVolumes(listing) => Ok(convert::dated(convert::page(listing, convert::volume), self.date())),
            other => Err(unexpected(Action::DescribeVolumes, &other)),
        }
    }

    async fn modify_volume(&self, request: &ModifyVolume) -> Result<Modification> {
        let call = api::ModifyVolume {
            volume_id: request.volume.to_string(),
            size: request.size.map(|size| i64::from(size.0)),
            volume_type: request.volume_type.as_ref().map(ToString::to_string),
            iops: request.iops.map(i64::from),
            throughput: request.throughput.map(i64::from),
            multi_attach_enabled: None,
            dry_run: false,
        };
        match self.make(Action::ModifyVolume, Call::ModifyVolume(call)).await? {
            Reply::ModifyVolume(modification) => Ok(convert::modification(modification)),
            other => Err(unexpected(Action::ModifyVolume, &other)),
        }
    }

    async fn describe_modifications(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<Modification>> {
        let (max_results, next_token) = paging(page);
        let call = api::DescribeVolumesModifications {
            volume_ids: Vec::new(),
            filters: filter("volume-id", texts(volumes)),
            max_results,
            next_token,
            dry_run: false,
        };
        let action = Action::DescribeVolumesModifications;
        match self.make(action, Call::DescribeVolumesModifications(call)).await? {
            Reply::DescribeVolumesModifications(listing) => Ok(convert::page(listing, convert::modification)),
            other => Err(unexpected(action, &other)),
        }
    }

    async fn describe_volume_status(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<VolumeStatus>> {
        if volumes.is_empty() {
            return Ok(Page { items: Vec::new(), next: None });
        }
        let call = api::DescribeVolumeStatus {
            volume_ids: texts(volumes),
            next_token: page.token.clone(),
            ..Default::default()
        };
        let action = Action::DescribeVolumeStatus;
        match self.make(action, Call::DescribeVolumeStatus(call)).await? {
            Reply::DescribeVolumeStatus(listing) => Ok(convert::page(listing, convert::volume_status)),
            other => Err(unexpected(action, &other)),
        }
    }

    async fn create_tags(&self, resource: &str, tags: &Tags) -> Result<()> {
        let (resources, tags) = (vec![resource.to_owned()], convert::tag_list(tags));
        let call = api::CreateTags { resources, tags, dry_run: false };
        self.make(Action::CreateTags, Call::CreateTags(call)).await.map(drop)
    }

    async fn delete_tags(&self, resource: &str, keys: &[String]) -> Result<()> {
        let call = api::DeleteTags {
            resources: vec![resource.to_owned()],
            tags: keys.iter().map(|key| TagToDelete { key: key.clone(), value: None }).collect(),
            dry_run: false,
        };
        self.make(Action::DeleteTags, Call::DeleteTags(call)).await.map(drop)
    }
}
