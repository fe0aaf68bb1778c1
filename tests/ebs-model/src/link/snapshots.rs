//! Snapshots.

use ebs_ec2::{
    Action, CreateSnapshot, DriverName, Ec2, FastRestores, LockSnapshot, Page, PageRequest, Result, Snapshot,
    SnapshotId, SnapshotLock, SnapshotQuery, SnapshotState, Snapshots, ZoneName,
};

use super::attachments::LATER;
use super::{Ec2Call, Link, Subject, of};
use crate::network::EventKind;
use crate::planted::Planted;

impl<E: Ec2> Link<E> {
    /// Planted bug: a policy that repeats CreateSnapshot on its own, without the snapshot's name tag.
    fn take_again_later(&self, request: &CreateSnapshot) {
        let (ec2, mut request) = (self.ec2(), request.clone());
        request.tags.remove(DriverName::SNAPSHOT_NAME_TAG);
        self.call_later(LATER, async move { drop(ec2.create_snapshot(&request).await) });
    }

    /// Planted bug: a policy that identifies snapshots by name only.
    async fn delete_snapshots_by_name(&self, id: &SnapshotId) {
        let key = DriverName::SNAPSHOT_NAME_TAG.to_owned();
        let query = SnapshotQuery::Tag { key, values: vec!["snapshot-0".to_owned(), "snapshot-1".to_owned()] };
        let Ok(found) = self.ec2.describe_snapshots(&query, &PageRequest::default()).await else { return };
        for other in found.items.iter().filter(|s| s.id != *id) {
            let _nobody_hears = self.ec2.delete_snapshot(&other.id).await;
        }
    }
}

impl<E: Ec2> Snapshots for Link<E> {
    async fn create_snapshot(&self, request: &CreateSnapshot) -> Result<Snapshot> {
        let (ec2, mut request) = (self.ec2(), request.clone());
        if self.network.is_planted(Planted::SnapshotTagsDropped) {
            request.tags.retain(|key, _| !key.contains("cluster"));
        }
        if self.network.is_planted(Planted::BeyondThePolicies) {
            request.tags.clear();
        }
        if self.network.is_planted(Planted::SnapshotTwice) {
            self.take_again_later(&request);
        }
        let name = request.tags.get(DriverName::SNAPSHOT_NAME_TAG).cloned().unwrap_or_default();
        let ec2_call = Ec2Call::change(Action::CreateSnapshot, of(name), |snapshot: &Snapshot, subject| {
            EventKind::Snapshotted { name: subject.name.clone(), id: snapshot.id.to_string() }
        });
        let ec2_call =
            ec2_call.with(self.network.outcome_of_change(Action::CreateSnapshot, &[(request.volume.as_str(), "")]));
        self.make(ec2_call, Box::pin(async move { ec2.create_snapshot(&request).await })).await
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        let (ec2, id) = (self.ec2(), id.clone());
        if self.network.is_planted(Planted::SnapshotDeleteForgotten) {
            return Ok(());
        }
        if self.network.is_planted(Planted::DeleteByName) {
            self.delete_snapshots_by_name(&id).await;
        }
        let gone = |_: &(), of: &Subject| EventKind::Gone { id: of.name.clone() };
        let ec2_call = self.change_of(Action::DeleteSnapshot, id.as_str(), gone);
        self.make(ec2_call, Box::pin(async move { ec2.delete_snapshot(&id).await })).await
    }

    async fn enable_fast_snapshot_restores(&self, id: &SnapshotId, zones: &[ZoneName]) -> Result<FastRestores> {
        let (ec2, id, zones) = (self.ec2(), id.clone(), zones.to_vec());
        if self.network.is_planted(Planted::FastRestoresForgotten) {
            return Ok(FastRestores { enabled: zones, failures: Vec::new() });
        }
        let restoring = |done: &FastRestores, of: &Subject| EventKind::Restoring {
            snapshot: of.name.clone(),
            zones: done.enabled.iter().map(ToString::to_string).collect(),
        };
        let ec2_call = self.change_of(Action::EnableFastSnapshotRestores, id.as_str(), restoring);
        self.make(ec2_call, Box::pin(async move { ec2.enable_fast_snapshot_restores(&id, &zones).await })).await
    }

    async fn lock_snapshot(&self, request: &LockSnapshot) -> Result<()> {
        let (ec2, request) = (self.ec2(), request.clone());
        if self.network.is_planted(Planted::LockForgotten) {
            return Ok(());
        }
        let locked = |_: &(), of: &Subject| EventKind::Locked { snapshot: of.name.clone() };
        let ec2_call = self.change_of(Action::LockSnapshot, request.snapshot.as_str(), locked);
        self.make(ec2_call, Box::pin(async move { ec2.lock_snapshot(&request).await })).await
    }

    async fn describe_lock(&self, id: &SnapshotId) -> Result<Option<SnapshotLock>> {
        let (ec2, id) = (self.ec2(), id.clone());
        let ec2_call = Ec2Call { subject: of(&id), ..Ec2Call::ask(Action::DescribeLockedSnapshots) };
        self.make(ec2_call, Box::pin(async move { ec2.describe_lock(&id).await })).await
    }

    async fn describe_snapshots(&self, query: &SnapshotQuery, page: &PageRequest) -> Result<Page<Snapshot>> {
        let (ec2, query, page) = (self.ec2(), query.clone(), page.clone());
        let by_name = matches!(query, SnapshotQuery::Tag { .. });
        let ec2_call = Ec2Call { subject: of(format!("{query:?}")), ..Ec2Call::ask(Action::DescribeSnapshots) };
        let mut page =
            self.make(ec2_call, Box::pin(async move { ec2.describe_snapshots(&query, &page).await })).await?;
        if by_name && self.network.is_planted(Planted::SnapshotsUnseen) {
            page.items.clear();
        }
        if self.network.is_planted(Planted::ReadyTooSoon) {
            page.items.iter_mut().for_each(|s| s.state = SnapshotState::Completed);
        }
        Ok(page)
    }
}
