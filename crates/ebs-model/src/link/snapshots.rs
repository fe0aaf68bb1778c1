//! Snapshots.

use ebs_ec2::{
    Action, CreateSnapshot, Ec2, FastRestores, LockSnapshot, Page, PageRequest, Result, Snapshot, SnapshotQuery,
    SnapshotState, Snapshots,
};
use ebs_types::{DriverName, SnapshotId, ZoneName};

use super::{Link, Subject, Trip};
use crate::field::What;
use crate::planted::Planted;

fn of(name: impl ToString) -> Subject {
    Subject { name: name.to_string(), other: String::new() }
}

impl<E: Ec2> Snapshots for Link<E> {
    async fn create_snapshot(&self, request: &CreateSnapshot) -> Result<Snapshot> {
        let (ec2, request) = (self.ec2(), request.clone());
        let name = request.tags.get(DriverName::SNAPSHOT_NAME_TAG).cloned().unwrap_or_default();
        let trip = Trip::change(Action::CreateSnapshot, of(name), |snapshot: &Snapshot, subject| What::Snapshotted {
            name: subject.name.clone(),
            id: snapshot.id.to_string(),
        });
        self.make(trip, Box::pin(async move { ec2.create_snapshot(&request).await })).await
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        let (ec2, id) = (self.ec2(), id.clone());
        let trip = Trip::change(Action::DeleteSnapshot, of(&id), |(), _| What::Other);
        self.make(trip, Box::pin(async move { ec2.delete_snapshot(&id).await })).await
    }

    async fn enable_fast_snapshot_restores(&self, id: &SnapshotId, zones: &[ZoneName]) -> Result<FastRestores> {
        let (ec2, id, zones) = (self.ec2(), id.clone(), zones.to_vec());
        let trip = Trip::change(Action::EnableFastSnapshotRestores, of(&id), |_, _| What::Other);
        self.make(trip, Box::pin(async move { ec2.enable_fast_snapshot_restores(&id, &zones).await })).await
    }

    async fn lock_snapshot(&self, request: &LockSnapshot) -> Result<()> {
        let (ec2, request) = (self.ec2(), request.clone());
        let trip = Trip::change(Action::LockSnapshot, of(&request.snapshot), |(), _| What::Other);
        self.make(trip, Box::pin(async move { ec2.lock_snapshot(&request).await })).await
    }

    async fn describe_snapshots(&self, query: &SnapshotQuery, page: &PageRequest) -> Result<Page<Snapshot>> {
        let (ec2, query, page) = (self.ec2(), query.clone(), page.clone());
        let by_name = matches!(query, SnapshotQuery::Tag { .. });
        let trip = Trip { subject: of(format!("{query:?}")), ..Trip::ask(Action::DescribeSnapshots) };
        let mut page = self.make(trip, Box::pin(async move { ec2.describe_snapshots(&query, &page).await })).await?;
        if by_name && self.field.is_planted(Planted::SnapshotsUnseen) {
            page.items.clear();
        }
        if self.field.is_planted(Planted::ReadyTooSoon) {
            page.items.iter_mut().for_each(|s| s.state = SnapshotState::Completed);
        }
        Ok(page)
    }
}
