//! The snapshot as it is.

use ebs_ec2::{Ec2, Snapshot};
use ebs_types::SnapshotId;

use crate::describe::{FirstPoll, Verdict};
use crate::op::Op;
use crate::{Cloud, CloudError, Object};

impl<E: Ec2> Cloud<E> {
    /// The snapshot as EC2 describes it now; `None` when there is none.
    ///
    /// # Errors
    /// `CloudErrorKind::Unavailable`, `CloudErrorKind::Unauthorized`.
    pub async fn snapshot(&self, id: &SnapshotId) -> Result<Option<Snapshot>, CloudError> {
        self.lookups.snapshot(None, id).await
    }

    /// The snapshot, once it is sure that there is one or none: one taken a moment ago may not be shown yet.
    pub(crate) async fn snapshot_for_sure(&self, op: &Op<'_>, id: &SnapshotId) -> Result<Option<Snapshot>, CloudError> {
        let object = Object::Snapshot(id.clone());
        let settled_at = self.recent.heard_of(&object);
        self.waiter
            .snapshot(op, FirstPoll::Now, id, |found, sent| {
                if found.is_some() {
                    self.recent.note_seen(&object);
                } else if sent < settled_at {
                    return Verdict::Waiting;
                }
                Verdict::Done(found)
            })
            .await
    }
}
