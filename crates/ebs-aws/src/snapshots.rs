//! The port's snapshots: one method, one call.

use aws_sdk_ec2::types::{LockMode, ResourceType};
use aws_smithy_types::DateTime;
use ebs_ec2::{
    Action, CreateSnapshot, FastRestores, LockSnapshot, Page, PageRequest, Result, Snapshot, SnapshotQuery, Snapshots,
};
use ebs_types::{SnapshotId, ZoneName};

use crate::AwsEc2;
use crate::convert::{Read, about, among, required, snapshot as convert, text};
use crate::query::{filter, max_results, number, tags_of};

/// The caller's own account, in EC2's words.
const OWN: &str = "self";

impl Snapshots for AwsEc2 {
    async fn create_snapshot(&self, request: &CreateSnapshot) -> Result<Snapshot> {
        let monitor = self.monitor(Action::CreateSnapshot);
        let operation = self
            .client
            .create_snapshot()
            .volume_id(request.volume.as_str())
            .description(&request.description)
            .set_outpost_arn(request.outpost_arn.clone())
            .set_tag_specifications(tags_of(ResourceType::Snapshot, &request.tags))
            .customize();
        let send = monitor.once(operation).send();
        self.call(monitor, send, |reply| {
            let snapshot = convert::created(reply)?;
            about(required(snapshot.source_volume.as_ref(), "source volume")?, &request.volume)?;
            Ok(snapshot)
        })
        .await
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        let monitor = self.monitor(Action::DeleteSnapshot);
        let send = monitor.once(self.client.delete_snapshot().snapshot_id(id.as_str()).customize()).send();
        self.call(monitor, send, |_| Ok(())).await
    }

    async fn enable_fast_snapshot_restores(&self, id: &SnapshotId, zones: &[ZoneName]) -> Result<FastRestores> {
        let monitor = self.monitor(Action::EnableFastSnapshotRestores);
        let operation = self
            .client
            .enable_fast_snapshot_restores()
            .source_snapshot_ids(id.as_str())
            .set_availability_zones(Some(zones.iter().map(ToString::to_string).collect()))
            .customize();
        let send = monitor.once(operation).send();
        self.call(monitor, send, |reply| convert::fast_restores(reply, id)).await
    }

    async fn lock_snapshot(&self, request: &LockSnapshot) -> Result<()> {
        let monitor = self.monitor(Action::LockSnapshot);
        let operation = self
            .client
            .lock_snapshot()
            .snapshot_id(request.snapshot.as_str())
            .set_lock_mode(request.mode.as_deref().map(LockMode::from))
            .set_cool_off_period(request.cool_off_hours.map(number))
            .set_expiration_date(request.expiration.map(DateTime::from))
            .set_lock_duration(request.duration_days.map(number))
            .customize();
        let send = monitor.once(operation).send();
        self.call(monitor, send, |reply| convert::check_same(reply.snapshot_id.as_deref(), &request.snapshot)).await
    }

    async fn describe_snapshots(&self, query: &SnapshotQuery, page: &PageRequest) -> Result<Page<Snapshot>> {
        let operation =
            self.client.describe_snapshots().set_max_results(max_results(page)).set_next_token(page.token.clone());
        // An empty list of ids or values would mean "all" to EC2.
        let operation = match query {
            SnapshotQuery::FilterIds(ids) if ids.is_empty() => return Ok(Page { items: vec![], next: None }),
            SnapshotQuery::Tag { values, .. } if values.is_empty() => return Ok(Page { items: vec![], next: None }),
            SnapshotQuery::FilterIds(ids) => {
                operation.filters(filter("snapshot-id", ids.iter().map(SnapshotId::as_str)))
            }
            SnapshotQuery::Tag { key, values } => {
                operation.owner_ids(OWN).filters(filter(format!("tag:{key}"), values))
            }
            SnapshotQuery::Owned { volume: None } => operation.owner_ids(OWN),
            SnapshotQuery::Owned { volume: Some(volume) } => {
                operation.owner_ids(OWN).filters(filter("volume-id", [volume.as_str()]))
            }
        };
        let monitor = self.monitor(Action::DescribeSnapshots);
        let send = monitor.repeatable(operation.customize()).send();
        self.call(monitor, send, |reply| {
            let list = required(reply.snapshots, "list of snapshots")?;
            let items = list.into_iter().map(convert::snapshot).collect::<Read<Vec<_>>>()?;
            if let SnapshotQuery::FilterIds(ids) = query {
                among(&items, |s| &s.id, ids)?;
            }
            Ok(Page { items, next: text(reply.next_token) })
        })
        .await
    }
}
