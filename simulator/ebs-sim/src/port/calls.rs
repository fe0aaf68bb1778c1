//! The port's calls, implemented with calls to the simulator.

use ebs_ec2::{
    Action, AttachRequest, Attachment, Attachments, ClusterNodeDevice, ClusterNodes, CopyVolume, CreateSnapshot,
    CreateVolume, DetachRequest, DeviceName, ErrorClass, FastRestores, HyperPodNode, Instance, InstanceId,
    InstanceTypeInfo, Instances, LockSnapshot, Modification, ModifyVolume, Page, PageRequest, Place, Result, Snapshot,
    SnapshotId, SnapshotLock, SnapshotQuery, Snapshots, Tags, Volume, VolumeId, VolumeQuery, VolumeStatus, Volumes,
    Zone, ZoneName, Zones,
};

use crate::api::{self, Call, SimAttachment, TagToDelete};

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

impl Attachments for SimEc2 {
    async fn attach_volume(&self, request: &AttachRequest) -> Result<Attachment> {
        let attach = api::AttachVolume {
            volume_id: request.volume.to_string(),
            instance_id: request.instance.to_string(),
            device: Some(request.device.to_string()),
            ebs_card_index: request.card.map(i64::from),
            dry_run: false,
        };
        call!(self, AttachVolume, attach).map(|attachment| self.dated(attachment))
    }

    async fn detach_volume(&self, request: &DetachRequest) -> Result<Attachment> {
        let detach = api::DetachVolume {
            volume_id: request.volume.to_string(),
            instance_id: Some(request.instance.to_string()),
            ..Default::default()
        };
        call!(self, DetachVolume, detach).map(|attachment| self.dated(attachment))
    }
}

impl SimEc2 {
    fn dated(&self, attachment: SimAttachment) -> Attachment {
        Attachment { said_at: Some(self.date()), ..convert::attachment(attachment) }
    }
}

impl Snapshots for SimEc2 {
    async fn create_snapshot(&self, request: &CreateSnapshot) -> Result<Snapshot> {
        let create = api::CreateSnapshot {
            volume_id: request.volume.to_string(),
            description: Some(request.description.clone()),
            outpost_arn: request.outpost_arn.clone(),
            tag_specifications: convert::specification("snapshot", &request.tags),
            dry_run: false,
        };
        call!(self, CreateSnapshot, create).map(convert::snapshot)
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        let delete = api::DeleteSnapshot { snapshot_id: id.to_string(), dry_run: false };
        self.make(Action::DeleteSnapshot, Call::DeleteSnapshot(delete)).await.map(drop)
    }

    async fn enable_fast_snapshot_restores(&self, id: &SnapshotId, zones: &[ZoneName]) -> Result<FastRestores> {
        let enable = api::EnableFastSnapshotRestores {
            availability_zones: texts(zones),
            source_snapshot_ids: vec![id.to_string()],
            ..Default::default()
        };
        call!(self, EnableFastSnapshotRestores, enable).map(convert::fast_restores)
    }

    async fn lock_snapshot(&self, request: &LockSnapshot) -> Result<()> {
        let lock = api::LockSnapshot {
            snapshot_id: request.snapshot.to_string(),
            lock_mode: request.mode.clone(),
            cool_off_period: request.cool_off_hours.map(i64::from),
            lock_duration: request.duration_days.map(i64::from),
            expiration_date: request.expiration.map(|at| humantime::format_rfc3339_millis(at).to_string()),
            dry_run: false,
        };
        call!(self, LockSnapshot, lock).map(drop)
    }

    async fn describe_lock(&self, id: &SnapshotId) -> Result<Option<SnapshotLock>> {
        let asked = api::DescribeLockedSnapshots { snapshot_ids: vec![id.to_string()], ..Default::default() };
        let locks = call!(self, DescribeLockedSnapshots, asked)?;
        Ok(locks.items.into_iter().next().map(convert::lock))
    }

    async fn describe_snapshots(&self, query: &SnapshotQuery, page: &PageRequest) -> Result<Page<Snapshot>> {
        let own = || vec!["self".to_owned()];
        let (owner_ids, filters) = match query {
            SnapshotQuery::FilterIds(ids) => (Vec::new(), filter("snapshot-id", texts(ids))),
            SnapshotQuery::Tag { key, values } => (own(), filter(format!("tag:{key}"), values.clone())),
            SnapshotQuery::Owned { volume: Some(id) } => (own(), filter("volume-id", vec![id.to_string()])),
            SnapshotQuery::Owned { volume: None } => (own(), Vec::new()),
        };
        let (max_results, next_token) = paging(page);
        let asked = api::DescribeSnapshots { owner_ids, filters, max_results, next_token, ..Default::default() };
        call!(self, DescribeSnapshots, asked).map(|page| convert::page(page, convert::snapshot))
    }
}

impl Instances for SimEc2 {
    async fn describe_instances(&self, ids: &[InstanceId], page: &PageRequest) -> Result<Page<Instance>> {
        let (max_results, next_token) = paging(page);
        let filters = filter("instance-id", texts(ids));
        let asked = api::DescribeInstances { filters, max_results, next_token, ..Default::default() };
        call!(self, DescribeInstances, asked).map(|page| convert::page(page, convert::instance))
    }

    async fn describe_instance_type(&self, instance_type: &str) -> Result<Option<InstanceTypeInfo>> {
        let instance_types = vec![instance_type.to_owned()];
        let asked = api::DescribeInstanceTypes { instance_types, ..Default::default() };
        match call!(self, DescribeInstanceTypes, asked) {
            Ok(page) => Ok(page
                .items
                .into_iter()
                .next()
                .map(|t| InstanceTypeInfo { instance_type: t.name, ebs_cards: t.maximum_ebs_cards })),
            Err(e) if e.class == ErrorClass::InvalidParameter && e.code.as_deref() == Some("InvalidInstanceType") => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}

impl ClusterNodes for SimEc2 {
    async fn attach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<ClusterNodeDevice> {
        let attachment = call!(self, AttachClusterNodeVolume, self.call_about(node, volume))?;
        Ok(ClusterNodeDevice { device: DeviceName::new(attachment.device), said_at: Some(self.date()) })
    }

    async fn detach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<()> {
        call!(self, DetachClusterNodeVolume, self.call_about(node, volume)).map(drop)
    }
}

impl SimEc2 {
    fn call_about(&self, node: &HyperPodNode, volume: &VolumeId) -> api::ClusterNodeVolume {
        let region = &self.engine.config().region;
        api::ClusterNodeVolume {
            cluster_arn: format!("arn:aws:sagemaker:{region}:{}:cluster/{}", api::ACCOUNT_ID, node.cluster()),
            node_id: node.instance().to_string(),
            volume_id: volume.to_string(),
        }
    }
}

impl Zones for SimEc2 {
    async fn describe_zones(&self) -> Result<Vec<Zone>> {
        let zones = call!(self, DescribeAvailabilityZones, api::DescribeAvailabilityZones::default())?;
        Ok(zones.into_iter().map(convert::zone).collect())
    }

    async fn check_access(&self) -> Result<()> {
        let asked = api::DescribeAvailabilityZones { dry_run: true, ..Default::default() };
        match call!(self, DescribeAvailabilityZones, asked) {
            Err(e) if e.class != ErrorClass::DryRunSucceeded => Err(e),
            _ => Ok(()),
        }
    }
}
