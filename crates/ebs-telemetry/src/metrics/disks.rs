//! Statistics of this node's volumes, which are read at each scrape.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

use component_base::metrics::{Desc, Family, Sample, Series, Value, float};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::table;

/// How long a result is reused, so that two concurrent scrapes read the disks only once.
const FRESH: Duration = Duration::from_secs(1);

/// A volume's statistics since its attachment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskStatistics {
    pub volume_id: String,
    pub reads: DiskTransfers,
    pub writes: DiskTransfers,
    /// How long the load exceeded the volume's own limits.
    pub volume_exceeded: DiskExceeded,
    /// How long the load exceeded the instance's limits, which all its volumes share.
    pub instance_exceeded: DiskExceeded,
    /// The number of operations that are queued now.
    pub queue_length: u64,
}

/// The statistics of a volume's read or write operations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskTransfers {
    pub operations: u64,
    pub bytes: u64,
    /// The total duration of the operations in microseconds.
    pub microseconds: u64,
    /// For each bucket, its upper bound in microseconds, or `None` for no bound, and the number of its operations.
    pub latency: Vec<(Option<u64>, u64)>,
}

/// For how many microseconds the load exceeded a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskExceeded {
    pub iops_microseconds: u64,
    pub throughput_microseconds: u64,
}

/// The statistics of all volumes of the node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskReport {
    pub instance_id: String,
    /// The statistics of the volumes, one entry for each volume.
    pub disks: Vec<DiskStatistics>,
    /// The number of failed reads of volumes and failed searches for volumes.
    pub errors: u64,
}

/// Reads the statistics of the node's volumes.
pub trait Disks: Send + Sync + 'static {
    /// Returns the statistics of all volumes within a few seconds, even if individual disks hang.
    ///
    /// Cancellation: the future may be dropped.
    fn read(&self) -> Pin<Box<dyn Future<Output = DiskReport> + Send + '_>>;
}

/// Collects the metrics of the volumes, and the number and duration of its own reads of the disks.
pub(super) struct DiskCollector {
    pub(super) source: OnceLock<Box<dyn Disks>>,
    /// The last result and its time. A read of the disks holds the lock, so that concurrent scrapes share its result.
    last: Mutex<Option<(Instant, DiskReport)>>,
    scrapes: Series,
    errors: Series,
    seconds: Series,
}

impl DiskCollector {
    pub(super) fn new() -> Self {
        Self {
            source: OnceLock::new(),
            last: Mutex::default(),
            scrapes: Series::new(&table::DISK_SCRAPES),
            errors: Series::new(&table::DISK_ERRORS),
            seconds: Series::new(&table::DISK_SECONDS),
        }
    }

    /// Returns the metrics. Cancellation: if the future is dropped, the next scrape reads the disks again.
    pub(super) async fn families(&self) -> Vec<Family> {
        let Some(source) = self.source.get() else { return Vec::new() };
        let began = Instant::now();
        let mut last = self.last.lock().await;
        let (read, report) = match last.take_if(|(read, _)| read.elapsed() <= FRESH) {
            Some(kept) => kept,
            None => {
                let report = source.read().await;
                self.errors.add(&[&report.instance_id], float(report.errors));
                (Instant::now(), report)
            }
        };
        let node = [report.instance_id.as_str()];
        self.scrapes.add(&node, 1.0);
        self.seconds.observe(&node, began.elapsed().as_secs_f64());
        let mut families = of_volumes(&report);
        families.extend([self.scrapes.family(), self.errors.family(), self.seconds.family()]);
        *last = Some((read, report));
        families
    }
}

/// Converts microseconds to seconds, the unit of the page.
fn seconds(microseconds: u64) -> f64 {
    float(microseconds) / 1e6
}

fn of_volumes(report: &DiskReport) -> Vec<Family> {
    let numbers = |desc: &'static Desc, number: fn(&DiskStatistics) -> f64| {
        let sample = |disk: &DiskStatistics| Sample::number(&[&report.instance_id, &disk.volume_id], number(disk));
        Family { desc, samples: report.disks.iter().map(sample).collect() }
    };
    let latencies = |desc: &'static Desc, transfers: fn(&DiskStatistics) -> &DiskTransfers| {
        let labels = |disk: &DiskStatistics| vec![report.instance_id.clone(), disk.volume_id.clone()];
        let sample = |disk| Sample { labels: labels(disk), value: latency(transfers(disk)) };
        Family { desc, samples: report.disks.iter().map(sample).collect() }
    };
    vec![
        numbers(&table::READ_OPERATIONS, |disk| float(disk.reads.operations)),
        numbers(&table::WRITE_OPERATIONS, |disk| float(disk.writes.operations)),
        numbers(&table::READ_BYTES, |disk| float(disk.reads.bytes)),
        numbers(&table::WRITE_BYTES, |disk| float(disk.writes.bytes)),
        numbers(&table::READ_SECONDS, |disk| seconds(disk.reads.microseconds)),
        numbers(&table::WRITE_SECONDS, |disk| seconds(disk.writes.microseconds)),
        numbers(&table::VOLUME_IOPS, |disk| seconds(disk.volume_exceeded.iops_microseconds)),
        numbers(&table::VOLUME_THROUGHPUT, |disk| seconds(disk.volume_exceeded.throughput_microseconds)),
        numbers(&table::INSTANCE_IOPS, |disk| seconds(disk.instance_exceeded.iops_microseconds)),
        numbers(&table::INSTANCE_THROUGHPUT, |disk| seconds(disk.instance_exceeded.throughput_microseconds)),
        numbers(&table::QUEUE_LENGTH, |disk| float(disk.queue_length)),
        latencies(&table::READ_LATENCY, |disk| &disk.reads),
        latencies(&table::WRITE_LATENCY, |disk| &disk.writes),
    ]
}

/// Converts the latencies to a histogram. Its sum, which the device does not report, is the total time of operations.
fn latency(transfers: &DiskTransfers) -> Value {
    let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
    for (up_to, operations) in &transfers.latency {
        if let Some(bound) = up_to {
            *bins.entry(*bound).or_default() += operations;
        }
    }
    let mut below = 0;
    let bucket = |(bound, operations)| {
        below += operations;
        (seconds(bound), below)
    };
    let buckets = bins.into_iter().map(bucket).collect();
    let count = transfers.latency.iter().map(|(_, operations)| operations).sum();
    Value::Histogram { buckets, sum: seconds(transfers.microseconds), count }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::metrics::Metrics;

    #[derive(Clone, Default)]
    struct Node(Arc<AtomicU64>);

    impl Disks for Node {
        fn read(&self) -> Pin<Box<dyn Future<Output = DiskReport> + Send + '_>> {
            Box::pin(async {
                self.0.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(3)).await;
                let disk = DiskStatistics { volume_id: "vol-1".to_owned(), ..DiskStatistics::default() };
                DiskReport { instance_id: "i-1".to_owned(), disks: vec![disk], errors: 2 }
            })
        }
    }

    fn metrics(node: &Node) -> Metrics {
        let metrics = Metrics::default();
        metrics.set_disks(node.clone());
        metrics
    }

    async fn page(metrics: &Metrics) -> String {
        metrics.scrape().await
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_scrapes_share_one_read() {
        let node = Node::default();
        let metrics = metrics(&node);
        let (one, other) = tokio::join!(page(&metrics), page(&metrics));
        assert_eq!(node.0.load(Ordering::SeqCst), 1);
        assert!(one.contains("read_ops_total") && other.contains("read_ops_total"));
        assert!(other.contains("errors_total{instance_id=\"i-1\"} 2\n"), "{other}");
        assert!(other.contains("scrapes_total{instance_id=\"i-1\"} 2\n"), "{other}");
        tokio::time::advance(FRESH * 2).await;
        let later = page(&metrics).await;
        assert_eq!(node.0.load(Ordering::SeqCst), 2);
        assert!(later.contains("errors_total{instance_id=\"i-1\"} 4\n"), "{later}");
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_scrape_does_not_block_the_next() {
        let node = Node::default();
        let metrics = metrics(&node);
        assert!(tokio::time::timeout(Duration::from_secs(1), page(&metrics)).await.is_err());
        assert!(page(&metrics).await.contains("read_ops_total"));
    }

    #[tokio::test]
    async fn disk_metrics_are_absent_before_node_is_known() {
        assert!(!page(&Metrics::default()).await.contains("nvme"));
    }

    #[test]
    fn latency_bins_are_sorted_and_merged_by_bound() {
        let transfers = DiskTransfers {
            latency: vec![(None, 1), (Some(256), 2), (Some(128), 4), (Some(256), 8)],
            microseconds: 3,
            ..DiskTransfers::default()
        };
        let Value::Histogram { buckets, count, .. } = latency(&transfers) else { panic!() };
        assert_eq!(buckets, [(0.000_128, 4), (0.000_256, 14)]);
        assert_eq!(count, 15);
    }
}
