//! Snapshots through the port.

use ebs_ec2::{
    Action, CreateSnapshot, FastRestores, LockSnapshot, Page, PageRequest, Result, Snapshot, SnapshotQuery, Snapshots,
};
use ebs_types::{SnapshotId, ZoneName};

use crate::api::{self, Call, Reply};

use super::convert::{self, filter, paging, texts};
use super::{SimEc2, unexpected};

impl Snapshots for SimEc2 {
    async fn create_snapshot(&self, request: &CreateSnapshot) -> Result<Snapshot> {
        let call = api::CreateSnapshot {
            volume_id: request.volume.to_string(),
            description: Some(request.description.clone()),
            outpost_arn: request.outpost_arn.clone(),
            tag_specifications: convert::specification("snapshot", &request.tags),
            dry_run: false,
        };
        match self.make(Action::CreateSnapshot, Call::CreateSnapshot(call)).await? {
            Reply::CreateSnapshot(snapshot) => Ok(convert::snapshot(snapshot)),
            other => Err(unexpected(Action::CreateSnapshot, &other)),
        }
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        let call = api::DeleteSnapshot { snapshot_id: id.to_string(), dry_run: false };
        self.make(Action::DeleteSnapshot, Call::DeleteSnapshot(call)).await.map(drop)
    }

    async fn enable_fast_snapshot_restores(&self, id: &SnapshotId, zones: &[ZoneName]) -> Result<FastRestores> {
        let action = Action::EnableFastSnapshotRestores;
        let call = api::EnableFastSnapshotRestores {
            availability_zones: texts(zones),
            source_snapshot_ids: vec![id.to_string()],
            ..Default::default()
        };
        match self.make(action, Call::EnableFastSnapshotRestores(call)).await? {
            Reply::EnableFastSnapshotRestores(restores) => Ok(convert::fast_restores(restores)),
            other => Err(unexpected(action, &other)),
        }
    }

    async fn lock_snapshot(&self, request: &LockSnapshot) -> Result<()> {
        let call = api::LockSnapshot {
            snapshot_id: request.snapshot.to_string(),
            lock_mode: request.mode.clone(),
            cool_off_period: request.cool_off_hours.map(i64::from),
            lock_duration: request.duration_days.map(i64::from),
            expiration_date: request.expiration.map(|at| humantime::format_rfc3339_millis(at).to_string()),
            dry_run: false,
        };
        self.make(Action::LockSnapshot, Call::LockSnapshot(call)).await.map(drop)
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
        let call = api::DescribeSnapshots { owner_ids, filters, max_results, next_token, ..Default::default() };
        match self.make(Action::DescribeSnapshots, Call::DescribeSnapshots(call)).await? {
            Reply::DescribeSnapshots(listing) => Ok(convert::page(listing, convert::snapshot)),
            other => Err(unexpected(Action::DescribeSnapshots, &other)),
        }
    }
}
