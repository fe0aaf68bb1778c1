//! The port's calls about snapshots. Each method makes one call.

use ebs_ec2::{
    Action, CreateSnapshot, FastRestores, LockSnapshot, Page, PageRequest, Result, Snapshot, SnapshotId, SnapshotLock,
    SnapshotQuery, Snapshots, ZoneName,
};

use crate::AwsEc2;
use crate::convert::{about, among, required, snapshot as convert};
use crate::query::Query;

/// EC2's name for the caller's own account.
const OWN: &str = "self";

impl Snapshots for AwsEc2 {
    async fn create_snapshot(&self, request: &CreateSnapshot) -> Result<Snapshot> {
        let query = Query::new(Action::CreateSnapshot)
            .with("VolumeId", &request.volume)
            .with("Description", &request.description)
            .maybe("OutpostArn", request.outpost_arn.as_ref())
            .tags_of("snapshot", &request.tags);
        self.ask(self.monitor(Action::CreateSnapshot), query, convert::snapshot, |snapshot| {
            about(required(snapshot.source_volume.as_ref(), "source volume")?, &request.volume)?;
            Ok(snapshot)
        })
        .await
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        let query = Query::new(Action::DeleteSnapshot).with("SnapshotId", id);
        self.ask(self.monitor(Action::DeleteSnapshot), query, |_| Ok(()), Ok).await
    }

    async fn enable_fast_snapshot_restores(&self, id: &SnapshotId, zones: &[ZoneName]) -> Result<FastRestores> {
        let query = Query::new(Action::EnableFastSnapshotRestores)
            .list("SourceSnapshotId", [id])
            .list("AvailabilityZone", zones);
        let monitor = self.monitor(Action::EnableFastSnapshotRestores);
        let asked = id.clone();
        self.ask(monitor, query, move |reply| convert::fast_restores(reply, &asked), Ok).await
    }

    async fn lock_snapshot(&self, request: &LockSnapshot) -> Result<()> {
        let query = Query::new(Action::LockSnapshot)
            .with("SnapshotId", &request.snapshot)
            .maybe("LockMode", request.mode.as_ref())
            .number("CoolOffPeriod", request.cool_off_hours)
            .maybe_time("ExpirationDate", request.expiration)
            .number("LockDuration", request.duration_days);
        let monitor = self.monitor(Action::LockSnapshot);
        self.ask(monitor, query, convert::snapshot_id, |id| about(&id, &request.snapshot)).await
    }

    async fn describe_lock(&self, id: &SnapshotId) -> Result<Option<SnapshotLock>> {
        let query = Query::new(Action::DescribeLockedSnapshots).list("SnapshotId", [id]);
        let monitor = self.monitor(Action::DescribeLockedSnapshots).repeatable();
        self.ask(monitor, query, convert::locks, |locks| {
            among(&locks, |lock| &lock.snapshot, std::slice::from_ref(id))?;
            Ok(locks.into_iter().next())
        })
        .await
    }

    async fn describe_snapshots(&self, query: &SnapshotQuery, page: &PageRequest) -> Result<Page<Snapshot>> {
        let request = Query::new(Action::DescribeSnapshots);
        let own = |request: Query| request.list("Owner", [OWN]);
        // EC2 treats an empty list of ids or values as "all".
        let request = match query {
            SnapshotQuery::FilterIds(ids) if ids.is_empty() => return Ok(Page { items: vec![], next: None }),
            SnapshotQuery::Tag { values, .. } if values.is_empty() => return Ok(Page { items: vec![], next: None }),
            SnapshotQuery::FilterIds(ids) => request.filter("snapshot-id", ids.iter().map(SnapshotId::as_str)),
            SnapshotQuery::Tag { key, values } => own(request).filter(&format!("tag:{key}"), values),
            SnapshotQuery::Owned { volume: None } => own(request),
            SnapshotQuery::Owned { volume: Some(volume) } => own(request).filter("volume-id", [volume.as_str()]),
        };
        let monitor = self.monitor(Action::DescribeSnapshots).repeatable();
        self.ask(monitor, request.page(page), convert::snapshots, |page| {
            if let SnapshotQuery::FilterIds(ids) = query {
                among(&page.items, |s| &s.id, ids)?;
            }
            Ok(page)
        })
        .await
    }
}
