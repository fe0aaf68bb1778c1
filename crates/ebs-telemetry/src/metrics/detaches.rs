//! Detachments that take long, read from whoever waits for them when the page is asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

/// What is younger than this is not worth a series.
const WORTH_TELLING: Duration = Duration::from_secs(60);
/// Bounds of the time that one reading takes, in seconds.
const BOUNDS: [f64; 7] = [0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0];

/// A detachment that somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDetach {
    /// The volume's id.
    pub volume_id: String,
    /// The instance's id.
    pub instance_id: String,
    /// EC2's last word on the attachment: `detaching`, `busy` …
    pub attachment_state: String,
    /// Since when it is waited for.
    pub since: Instant,
}

/// Knows the detachments that are waited for; must not block.
pub trait PendingDetaches: std::fmt::Debug + Send + Sync + 'static {
    /// All of them; what has ended is not among them.
    fn pending(&self) -> Vec<PendingDetach>;
}

/// Shows them, and how often and how long it was asked.
#[derive(Debug)]
pub(super) struct DetachCollector {
    source: Arc<dyn PendingDetaches>,
    scrapes: AtomicU64,
    seconds: Histogram,
}

impl DetachCollector {
    pub(super) fn new(source: Arc<dyn PendingDetaches>) -> Self {
        Self { source, scrapes: AtomicU64::new(0), seconds: Histogram::new(BOUNDS) }
    }
}

impl Collector for DetachCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let began = Instant::now();
        let pending = self.source.pending();
        let help = "Seconds that a detachment has been waited for, above 60";
        let name = "aws_ebs_csi_ec2_detach_pending_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for detach in pending.iter().filter(|detach| detach.since.elapsed() > WORTH_TELLING) {
            let labels = [
                ("volume_id", detach.volume_id.as_str()),
                ("instance_id", detach.instance_id.as_str()),
                ("attachment_state", detach.attachment_state.as_str()),
            ];
            let seconds = detach.since.elapsed().as_secs_f64();
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, f64, f64>(&seconds, None)?;
        }
        let scrapes = self.scrapes.fetch_add(1, Ordering::Relaxed) + 1;
        let help = "How often the pending detachments were read";
        let name = "aws_ebs_csi_ec2_collector_scrapes";
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, u64, f64>(&scrapes, None)?;
        self.seconds.observe(began.elapsed().as_secs_f64());
        let help = "Seconds that reading them took";
        let name = "aws_ebs_csi_ec2_collector_duration_seconds";
        self.seconds.encode(encoder.encode_descriptor(name, help, None, MetricType::Histogram)?)
    }
}
