//! Snapshots through the port.

use ebs_ec2::{
    Action, CreateSnapshot, Ec2Error, ErrorClass, FastRestores, LockSnapshot, Page, PageRequest, Result, Snapshot,
    SnapshotQuery, Snapshots,
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

    async fn enable_fast_snapshot_restores(&self, _id: &SnapshotId, _zones: &[ZoneName]) -> Result<FastRestores> {
        let action = Action::EnableFastSnapshotRestores;
        Err(Ec2Error::new(action, ErrorClass::Unsupported, "the simulator does not have this action yet"))
    }

    async fn lock_snapshot(&self, _request: &LockSnapshot) -> Result<()> {
        Err(Ec2Error::new(Action::LockSnapshot, ErrorClass::Unsupported, "the simulator does not have this action yet"))
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
