//! The simulated EC2 with describes that a test can override, for stale reads and unusual states. All other calls are
//! unchanged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ebs_ec2::{
    AttachRequest, Attachment, Attachments, ClusterNodeDevice, ClusterNodes, CopyVolume, CreateSnapshot, CreateVolume,
    DetachRequest, FastRestores, Instance, InstanceTypeInfo, Instances, LockSnapshot, Modification, ModifyVolume, Page,
    PageRequest, Result, Snapshot, SnapshotLock, SnapshotQuery, Snapshots, Volume, VolumeQuery, VolumeStatus, Volumes,
    Zone, Zones,
};
use ebs_sim::port::SimEc2;
use ebs_types::{HyperPodNode, InstanceId, SnapshotId, Tags, VolumeId, ZoneName};
use tokio::time::Instant;

type Override<T> = Mutex<Option<Box<dyn FnMut(&mut Vec<T>) + Send>>>;

pub(crate) struct Ec2Override {
    pub(crate) sim: SimEc2,
    volumes: Override<Volume>,
    snapshots: Override<Snapshot>,
    modifications: Override<Modification>,
    statuses: Override<VolumeStatus>,
    zones: Override<Zone>,
    without_zones: AtomicBool,
    without_dates: AtomicBool,
}

impl Ec2Override {
    pub(crate) fn over(sim: SimEc2) -> Self {
        Self {
            sim,
            volumes: Mutex::default(),
            snapshots: Mutex::default(),
            modifications: Mutex::default(),
            statuses: Mutex::default(),
            zones: Mutex::default(),
            without_zones: AtomicBool::new(false),
            without_dates: AtomicBool::new(false),
        }
    }

    /// Edits every description of volumes from now on.
    pub(crate) fn override_volumes(&self, edit: impl FnMut(&mut Vec<Volume>) + Send + 'static) {
        *self.volumes.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(edit));
    }

    /// Edits every description of snapshots from now on.
    pub(crate) fn override_snapshots(&self, edit: impl FnMut(&mut Vec<Snapshot>) + Send + 'static) {
        *self.snapshots.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(edit));
    }

    /// Edits every description of modifications from now on.
    pub(crate) fn override_modifications(&self, edit: impl FnMut(&mut Vec<Modification>) + Send + 'static) {
        *self.modifications.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(edit));
    }

    /// Edits every status of volumes from now on.
    pub(crate) fn override_statuses(&self, edit: impl FnMut(&mut Vec<VolumeStatus>) + Send + 'static) {
        *self.statuses.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(edit));
    }

    /// Lists no zones of the region from now on.
    pub(crate) fn hide_zones(&self) {
        self.without_zones.store(true, Ordering::SeqCst);
    }

    /// Lists the zones again from now on.
    pub(crate) fn show_zones(&self) {
        self.without_zones.store(false, Ordering::SeqCst);
    }

    /// Hides the dates of SageMaker's answers from now on.
    pub(crate) fn hide_dates_of_cluster_nodes(&self) {
        self.without_dates.store(true, Ordering::SeqCst);
    }

    /// Edits every list of zones from now on.
    pub(crate) fn override_zones(&self, edit: impl FnMut(&mut Vec<Zone>) + Send + 'static) {
        *self.zones.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(edit));
    }

    /// Hides all attachments from descriptions for `time` from now, as a stale describe does.
    pub(crate) fn hide_attachments(&self, time: Duration) {
        let until = Instant::now() + time;
        self.override_volumes(move |volumes| {
            if Instant::now() < until {
                volumes.iter_mut().for_each(|v| v.attachments.clear());
            }
        });
    }

    /// Removes the edits of volumes and snapshots.
    pub(crate) fn clear_overrides(&self) {
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn overridden<T>(edit: &Override<T>, mut page: Page<T>) -> Page<T> {
    if let Some(edit) = edit.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        edit(&mut page.items);
    }
    page
}

impl Volumes for Ec2Override {
    async fn create_volume(&self, request: &CreateVolume) -> Result<Volume> {
        self.sim.create_volume(request).await
    }

    async fn copy_volume(&self, request: &CopyVolume) -> Result<Volume> {
        self.sim.copy_volume(request).await
    }

    async fn delete_volume(&self, id: &VolumeId) -> Result<()> {
        self.sim.delete_volume(id).await
    }

    async fn describe_volumes(&self, query: &VolumeQuery, page: &PageRequest) -> Result<Page<Volume>> {
        Ok(overridden(&self.volumes, self.sim.describe_volumes(query, page).await?))
    }

    async fn modify_volume(&self, request: &ModifyVolume) -> Result<Modification> {
        self.sim.modify_volume(request).await
    }

    async fn describe_modifications(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<Modification>> {
        Ok(overridden(&self.modifications, self.sim.describe_modifications(volumes, page).await?))
    }

    async fn describe_volume_status(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<VolumeStatus>> {
        Ok(overridden(&self.statuses, self.sim.describe_volume_status(volumes, page).await?))
    }

    async fn create_tags(&self, resource: &str, tags: &Tags) -> Result<()> {
        self.sim.create_tags(resource, tags).await
    }

    async fn delete_tags(&self, resource: &str, keys: &[String]) -> Result<()> {
        self.sim.delete_tags(resource, keys).await
    }
}

impl Attachments for Ec2Override {
    async fn attach_volume(&self, request: &AttachRequest) -> Result<Attachment> {
        self.sim.attach_volume(request).await
    }

    async fn detach_volume(&self, request: &DetachRequest) -> Result<Attachment> {
        self.sim.detach_volume(request).await
    }
}

impl ClusterNodes for Ec2Override {
    async fn attach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<ClusterNodeDevice> {
        let reply = self.sim.attach_cluster_node_volume(node, volume).await?;
        let said_at = reply.said_at.filter(|_| !self.without_dates.load(Ordering::SeqCst));
        Ok(ClusterNodeDevice { said_at, ..reply })
    }

    async fn detach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<()> {
        self.sim.detach_cluster_node_volume(node, volume).await
    }
}

impl Snapshots for Ec2Override {
    async fn create_snapshot(&self, request: &CreateSnapshot) -> Result<Snapshot> {
        self.sim.create_snapshot(request).await
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        self.sim.delete_snapshot(id).await
    }

    async fn enable_fast_snapshot_restores(&self, id: &SnapshotId, zones: &[ZoneName]) -> Result<FastRestores> {
        self.sim.enable_fast_snapshot_restores(id, zones).await
    }

    async fn lock_snapshot(&self, request: &LockSnapshot) -> Result<()> {
        self.sim.lock_snapshot(request).await
    }

    async fn describe_lock(&self, id: &SnapshotId) -> Result<Option<SnapshotLock>> {
        self.sim.describe_lock(id).await
    }

    async fn describe_snapshots(&self, query: &SnapshotQuery, page: &PageRequest) -> Result<Page<Snapshot>> {
        Ok(overridden(&self.snapshots, self.sim.describe_snapshots(query, page).await?))
    }
}

impl Instances for Ec2Override {
    async fn describe_instances(&self, ids: &[InstanceId], page: &PageRequest) -> Result<Page<Instance>> {
        self.sim.describe_instances(ids, page).await
    }

    async fn describe_instance_type(&self, instance_type: &str) -> Result<Option<InstanceTypeInfo>> {
        self.sim.describe_instance_type(instance_type).await
    }
}

impl Zones for Ec2Override {
    async fn describe_zones(&self) -> Result<Vec<Zone>> {
        if self.without_zones.load(Ordering::SeqCst) {
            return Ok(Vec::new());
        }
        let mut zones = self.sim.describe_zones().await?;
        if let Some(edit) = self.zones.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            edit(&mut zones);
        }
        Ok(zones)
    }

    async fn check_access(&self) -> Result<()> {
        self.sim.check_access().await
    }
}
