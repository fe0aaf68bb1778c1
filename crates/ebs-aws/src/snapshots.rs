//! The port's calls about snapshots. Each method makes one call.

use ebs_ec2::{
    Action, CreateSnapshot, FastRestores, LockSnapshot, Page, PageRequest, Result, Snapshot, SnapshotId, SnapshotLock,
    SnapshotQuery, Snapshots, ZoneName,
};

use crate::AwsEc2;
use crate::convert::{about, among, only, required, snapshot as convert};
use crate::query::Query;

impl Snapshots for AwsEc2 {
    async fn create_snapshot(&self, request: &CreateSnapshot) -> Result<Snapshot> {
        let query = Query::new(Action::CreateSnapshot)
            .with("VolumeId", &request.volume)
            .with("Description", &request.description)
            .maybe("OutpostArn", request.outpost_arn.as_ref())
            .tags_of("snapshot", &request.tags);
        self.ask(query, convert::snapshot, |snapshot, _| {
            about(required(snapshot.source_volume.as_ref(), "source volume")?, &request.volume)?;
            Ok(snapshot)
        })
        .await
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        self.order(Query::new(Action::DeleteSnapshot).with("SnapshotId", id)).await
    }

    async fn enable_fast_snapshot_restores(&self, id: &SnapshotId, zones: &[ZoneName]) -> Result<FastRestores> {
        let query = Query::new(Action::EnableFastSnapshotRestores)
            .list("SourceSnapshotId", [id])
            .list("AvailabilityZone", zones);
        let asked = id.clone();
        self.ask(query, move |reply| convert::fast_restores(reply, &asked), |restores, _| Ok(restores)).await
    }

    async fn lock_snapshot(&self, request: &LockSnapshot) -> Result<()> {
        let query = Query::new(Action::LockSnapshot)
            .with("SnapshotId", &request.snapshot)
            .maybe("LockMode", request.mode.as_ref())
            .number("CoolOffPeriod", request.cool_off_hours)
            .maybe_time("ExpirationDate", request.expiration)
            .number("LockDuration", request.duration_days);
        self.ask(query, convert::snapshot_id, |id, _| about(&id, &request.snapshot)).await
    }

    async fn describe_lock(&self, id: &SnapshotId) -> Result<Option<SnapshotLock>> {
        let query = Query::new(Action::DescribeLockedSnapshots).list("SnapshotId", [id]);
        self.ask(query, convert::locks, |locks, _| {
            among(&locks, |lock| &lock.snapshot, std::slice::from_ref(id))?;
            Ok(locks.into_iter().next())
        })
        .await
    }

    async fn describe_snapshots(&self, query: &SnapshotQuery, page: &PageRequest) -> Result<Page<Snapshot>> {
        let request = Query::new(Action::DescribeSnapshots);
        let own = |request: Query| request.list("Owner", ["self"]);
        // EC2 treats an empty list of ids or values as "all".
        let request = match query {
            SnapshotQuery::FilterIds(ids) if ids.is_empty() => return Ok(Page { items: vec![], next: None }),
            SnapshotQuery::Tag { values, .. } if values.is_empty() => return Ok(Page { items: vec![], next: None }),
            SnapshotQuery::FilterIds(ids) => request.filter("snapshot-id", ids.iter().map(SnapshotId::as_str)),
            SnapshotQuery::Tag { key, values } => own(request).filter(&format!("tag:{key}"), values),
            SnapshotQuery::Owned { volume: None } => own(request),
            SnapshotQuery::Owned { volume: Some(volume) } => own(request).filter("volume-id", [volume.as_str()]),
        };
        self.ask(request.page(page), convert::snapshots, |page, _| match query {
            SnapshotQuery::FilterIds(ids) => only(page, |s| &s.id, ids),
            SnapshotQuery::Tag { .. } | SnapshotQuery::Owned { .. } => Ok(page),
        })
        .await
    }
}
