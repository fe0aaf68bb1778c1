//! EBS policy over an EC2: three services over one context.

use std::sync::Arc;

use ebs_ec2::{Ec2, Observer, Zones as _};
use ebs_types::ConnectionId;

use crate::attachment::AttachmentService;
use crate::context::Context;
use crate::error::CloudError;
use crate::lease_terms::Sidecar;
use crate::refused::refused;
use crate::snapshot::SnapshotService;
use crate::spec::CloudConfig;
use crate::volume::VolumeService;

/// EBS policy over an EC2.
///
/// All methods may run concurrently; the caller sees to it that at most one mutating operation runs for a key
/// (volume name, volume, volume and instance, snapshot name). Each operation has its own bound and ends with
/// `CloudErrorKind::InProgress`, `CloudErrorKind::OutcomeUnknown` or `CloudErrorKind::Unavailable` at its end.
///
/// **Cancellation.** Methods that take [`ebs_types::Waiters`] must be run to their end, never dropped. Without waiters
/// they start no further mutation and end with `CloudErrorKind::Abandoned` before it, but go on looking to their own
/// end; only when another operation is to run in their place ([`ebs_types::Waiters::supersede`]) do they end at once.
///
/// What it remembers (client tokens that had to change, device names in use, limits) is for this process only: a
/// process that starts anew finds everything out again from EC2.
#[derive(Debug)]
pub struct Cloud<E> {
    pub volumes: VolumeService<E>,
    pub attachments: AttachmentService<E>,
    pub snapshots: SnapshotService<E>,
    context: Arc<Context<E>>,
}

impl<E: Ec2> Cloud<E> {
    /// Policy over that EC2. Call it inside a tokio runtime, whose clock it uses. One for a process: it keeps the
    /// process's one view of how much EC2 takes.
    pub fn new(ec2: Arc<E>, config: CloudConfig) -> Self {
        Self::over(Context::new(ec2, config, None))
    }

    /// The same; the observer is told how long calls were held back ([`Observer::waited`]), of spare calls
    /// ([`Observer::spared`]) and of waits that were ended by time ([`Observer::ended_by_time`]).
    pub fn observed(ec2: Arc<E>, config: CloudConfig, observer: Arc<dyn Observer>) -> Self {
        Self::over(Context::new(ec2, config, Some(observer)))
    }

    fn over(context: Context<E>) -> Self {
        let context = Arc::new(context);
        Self {
            volumes: VolumeService::new(Arc::clone(&context)),
            attachments: AttachmentService::new(Arc::clone(&context)),
            snapshots: SnapshotService::new(Arc::clone(&context)),
            context,
        }
    }

    /// A mutating request has come over that connection, if its connection is known. To be told before the operation that
    /// the request starts or joins: it tells how long this process has been the only one that the sidecar asks.
    pub fn note_request(&self, sidecar: Sidecar, connection: Option<ConnectionId>) {
        self.context.recent.note_request(sidecar, connection);
    }

    /// Asks EC2 once, without retry, whether it answers and knows us.
    ///
    /// # Errors
    /// `CloudErrorKind::Unavailable`, `CloudErrorKind::Unauthenticated`, `CloudErrorKind::Unauthorized`.
    pub async fn check_access(&self) -> Result<(), CloudError> {
        let ec2 = self.context.ec2.for_background_read();
        ec2.check_access().await.map_err(|e| refused("check the access to EC2", e))
    }
}
