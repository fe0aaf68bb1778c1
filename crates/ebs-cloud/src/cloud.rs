//! The volume, attachment and snapshot services, which share one context.

use std::sync::Arc;

use ebs_ec2::{ConnectionId, Ec2, Observer, Zones as _};

use crate::attachment::AttachmentService;
use crate::context::Context;
use crate::error::Result;
use crate::error_map::map_error;
use crate::lease_terms::Sidecar;
use crate::snapshot::SnapshotService;
use crate::spec::CloudConfig;
use crate::volume::VolumeService;

/// The EBS policy over the EC2 port.
///
/// All methods may run concurrently. The caller runs at most one mutating operation per key (volume name, volume,
/// volume and instance, snapshot name). Each operation has its own deadline, at which it ends with
/// `CloudErrorKind::InProgress`, `CloudErrorKind::OutcomeUnknown` or `CloudErrorKind::Unavailable`.
///
/// **Cancellation.** The caller must run methods that take [`ebs_ec2::Waiters`] to their end, and never drop them. Once
/// no client waits, an operation ends with `CloudErrorKind::Abandoned` before the next mutation. If no mutation
/// follows, it keeps describing to its end, unless another operation replaces it ([`ebs_ec2::Waiters::supersede`]).
#[derive(Debug)]
pub struct Cloud<E> {
    pub volumes: VolumeService<E>,
    pub attachments: AttachmentService<E>,
    pub snapshots: SnapshotService<E>,
    context: Arc<Context<E>>,
}

impl<E: Ec2> Cloud<E> {
    /// Creates the policy. Call it once per process, inside a tokio runtime: the policy owns the rate limiter.
    pub fn new(ec2: Arc<E>, config: CloudConfig) -> Self {
        Self::over(Context::new(ec2, config, None))
    }

    /// Creates the policy with an observer of delayed calls, spare calls, and waits that ended only because enough time
    /// had passed.
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

    /// Records a mutating request of a sidecar, and its connection if known. Call it before the operation that the
    /// request starts or joins. The records show how long the sidecar has called only this process.
    pub fn record_request(&self, sidecar: Sidecar, connection: Option<ConnectionId>) {
        self.context.recent.leases.record_request(sidecar, connection);
    }

    /// Checks with one call, without retry, that EC2 answers and accepts our credentials.
    pub async fn check_access(&self) -> Result<()> {
        let ec2 = self.context.ec2.for_background_read();
        ec2.check_access().await.map_err(|e| map_error("check the access to EC2", e))
    }
}
