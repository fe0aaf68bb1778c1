//! Snapshots through the port.

use ebs_ec2::{
    Action, CreateSnapshot, FastRestores, LockSnapshot, Page, PageRequest, Result, Snapshot, SnapshotLock,
    SnapshotQuery, Snapshots,
};
use ebs_types::{SnapshotId, ZoneName};

use crate::api::{self, Call};

use super::convert::{self, filter, paging, texts};
use super::{SimEc2, call};

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
