//! The simulated EC2 with describes that a test can override, for stale reads and unusual states. All other calls pass
//! through unchanged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ebs_ec2::{
    AttachRequest, Attachment, Attachments, ClusterNodeDevice, ClusterNodes, CopyVolume, CreateSnapshot, CreateVolume,
    DetachRequest, FastRestores, HyperPodNode, Instance, InstanceId, InstanceTypeInfo, Instances, LockSnapshot,
    Modification, ModifyVolume, Page, PageRequest, Result, Snapshot, SnapshotId, SnapshotLock, SnapshotQuery,
    Snapshots, Tags, Volume, VolumeId, VolumeQuery, VolumeStatus, Volumes, Zone, ZoneName, Zones,
};
use ebs_sim::port::SimEc2;
use tokio::time::Instant;

type Override<T> = Mutex<Option<Box<dyn FnMut(&mut Vec<T>) + Send>>>;

pub(crate) struct Ec2Override {
    pub(crate) sim: SimEc2,
    volumes: Override<Volume>,
    snapshots: Override<Snapshot>,
    modifications: Override<Modification>,
    statuses: Override<VolumeStatus>,
    zones: Override<Zone>,
    without_dates: AtomicBool,
}

macro_rules! override_with {
    ($($(#[$doc:meta])* $name:ident($field:ident: $item:ty);)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(&self, edit: impl FnMut(&mut Vec<$item>) + Send + 'static) {
            *self.$field.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(edit));
        }
    )*};
}

macro_rules! hide {
    ($($(#[$doc:meta])* $name:ident: $with:ident;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(&self, seconds: u64) {
            let until = Instant::now() + Duration::from_secs(seconds);
            self.$with(move |items| items.retain(|_| Instant::now() >= until));
        }
    )*};
}

/// Defines port methods that only forward the call.
macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*) -> $reply:ty;)*) => {$(
        async fn $name(&self $(, $argument: $type)*) -> Result<$reply> {
            self.sim.$name($($argument),*).await
        }
    )*};
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
            without_dates: AtomicBool::new(false),
        }
    }

    override_with! {
        /// Edits every volume description from now on.
        override_volumes(volumes: Volume);
        /// Edits every snapshot description from now on.
        override_snapshots(snapshots: Snapshot);
        /// Edits every modification description from now on.
        override_modifications(modifications: Modification);
        /// Edits every volume status from now on.
        override_statuses(statuses: VolumeStatus);
        /// Edits every zone list from now on.
        override_zones(zones: Zone);
    }

    hide! {
        /// Makes DescribeVolumes calls show no volumes for `seconds` from now, as stale replies do.
        hide_volumes: override_volumes;
        /// Hides all snapshots from describes for `seconds` from now, as a stale describe does.
        hide_snapshots: override_snapshots;
        /// Hides all modifications from describes for `seconds` from now, as a stale describe does.
        hide_modifications: override_modifications;
    }

    /// Removes the dates from SageMaker's answers from now on.
    pub(crate) fn hide_dates_of_cluster_nodes(&self) {
        self.without_dates.store(true, Ordering::SeqCst);
    }

    /// Hides all attachments from descriptions for `seconds` from now, as a stale describe does.
    pub(crate) fn hide_attachments(&self, seconds: u64) {
        let until = Instant::now() + Duration::from_secs(seconds);
        self.override_volumes(move |volumes| {
            if Instant::now() < until {
                volumes.iter_mut().for_each(|v| v.attachments.clear());
            }
        });
    }

    pub(crate) fn clear_overrides(&self) {
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.zones.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn overridden<T>(edit: &Override<T>, mut page: Page<T>) -> Page<T> {
    if let Some(edit) = edit.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        edit(&mut page.items);
    }
    page
}

impl Volumes for Ec2Override {
    forward! {
        create_volume(request: &CreateVolume) -> Volume;
        copy_volume(request: &CopyVolume) -> Volume;
        delete_volume(id: &VolumeId) -> ();
        modify_volume(request: &ModifyVolume) -> Modification;
        create_tags(resource: &str, tags: &Tags) -> ();
        delete_tags(resource: &str, keys: &[String]) -> ();
    }

    async fn describe_volumes(&self, query: &VolumeQuery, page: &PageRequest) -> Result<Page<Volume>> {
        Ok(overridden(&self.volumes, self.sim.describe_volumes(query, page).await?))
    }

    async fn describe_modifications(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<Modification>> {
        Ok(overridden(&self.modifications, self.sim.describe_modifications(volumes, page).await?))
    }

    async fn describe_volume_status(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<VolumeStatus>> {
        Ok(overridden(&self.statuses, self.sim.describe_volume_status(volumes, page).await?))
    }
}

impl Attachments for Ec2Override {
    forward! {
        attach_volume(request: &AttachRequest) -> Attachment;
        detach_volume(request: &DetachRequest) -> Attachment;
    }
}

impl ClusterNodes for Ec2Override {
    forward! {
        detach_cluster_node_volume(node: &HyperPodNode, volume: &VolumeId) -> ();
    }

    async fn attach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<ClusterNodeDevice> {
        let reply = self.sim.attach_cluster_node_volume(node, volume).await?;
        let said_at = reply.said_at.filter(|_| !self.without_dates.load(Ordering::SeqCst));
        Ok(ClusterNodeDevice { said_at, ..reply })
    }
}

impl Snapshots for Ec2Override {
    forward! {
        create_snapshot(request: &CreateSnapshot) -> Snapshot;
        delete_snapshot(id: &SnapshotId) -> ();
        enable_fast_snapshot_restores(id: &SnapshotId, zones: &[ZoneName]) -> FastRestores;
        lock_snapshot(request: &LockSnapshot) -> ();
        describe_lock(id: &SnapshotId) -> Option<SnapshotLock>;
    }

    async fn describe_snapshots(&self, query: &SnapshotQuery, page: &PageRequest) -> Result<Page<Snapshot>> {
        Ok(overridden(&self.snapshots, self.sim.describe_snapshots(query, page).await?))
    }
}

impl Instances for Ec2Override {
    forward! {
        describe_instances(ids: &[InstanceId], page: &PageRequest) -> Page<Instance>;
        describe_instance_type(instance_type: &str) -> Option<InstanceTypeInfo>;
    }
}

impl Zones for Ec2Override {
    forward! {
        check_access() -> ();
    }

    async fn describe_zones(&self) -> Result<Vec<Zone>> {
        let mut zones = self.sim.describe_zones().await?;
        if let Some(edit) = self.zones.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            edit(&mut zones);
        }
        Ok(zones)
    }
}
