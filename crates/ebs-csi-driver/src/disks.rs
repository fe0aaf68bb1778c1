use std::path::PathBuf;
use std::pin::Pin;

use ebs_driver::status::chain;
use ebs_mounter::{Exceeded, LatencyBin, Mounter, NvmeStatistics, Transfers, VolumeStatistics};
use ebs_telemetry::{DiskExceeded, DiskReport, DiskStatistics, DiskTransfers, Disks};

pub(crate) struct NodeDisks {
    pub(crate) mounter: Mounter,
    pub(crate) instance_id: String,
    pub(crate) mounts_below: Option<PathBuf>,
}

impl Disks for NodeDisks {
    fn read(&self) -> Pin<Box<dyn Future<Output = DiskReport> + Send + '_>> {
        Box::pin(async {
            let statistics = self.mounter.volume_statistics(self.mounts_below.as_deref()).await;
            report(self.instance_id.clone(), statistics)
        })
    }
}

fn report(instance_id: String, statistics: VolumeStatistics) -> DiskReport {
    let VolumeStatistics { read, failed } = statistics;
    for error in &failed {
        tracing::debug!(error = chain(error), "failed to read the statistics of a disk");
    }
    let disks = read.into_iter().map(|(volume, statistics)| disk(volume.to_string(), statistics)).collect();
    DiskReport { instance_id, disks, errors: u64::try_from(failed.len()).unwrap_or(u64::MAX) }
}

fn disk(volume_id: String, statistics: NvmeStatistics) -> DiskStatistics {
    DiskStatistics {
        volume_id,
        reads: transfers(statistics.reads, &statistics.read_latency),
        writes: transfers(statistics.writes, &statistics.write_latency),
        volume_exceeded: exceeded(statistics.volume_exceeded),
        instance_exceeded: exceeded(statistics.instance_exceeded),
        queue_length: statistics.queue_length,
    }
}

fn transfers(transfers: Transfers, latency: &[LatencyBin]) -> DiskTransfers {
    let Transfers { operations, bytes, microseconds } = transfers;
    let latency = latency.iter().map(|bin| (bin.upper, u64::from(bin.operations))).collect();
    DiskTransfers { operations, bytes, microseconds, latency }
}

fn exceeded(exceeded: Exceeded) -> DiskExceeded {
    let Exceeded { iops_microseconds, throughput_microseconds } = exceeded;
    DiskExceeded { iops_microseconds, throughput_microseconds }
}

#[cfg(test)]
mod tests {
    use ebs_ec2::VolumeId;
    use ebs_mounter::{STATISTICS_PAGE_BYTES, StatisticsError, StatisticsPageError};
    use ebs_telemetry::Metrics;

    use super::*;

    /// A volume that returns this log page.
    struct Recorded([u8; STATISTICS_PAGE_BYTES]);

    impl Disks for Recorded {
        fn read(&self) -> Pin<Box<dyn Future<Output = DiskReport> + Send + '_>> {
            let page = StatisticsPageError::InstanceStore;
            let failed = vec![StatisticsError::Page { path: "/dev/nvme9n1".into(), source: page }];
            let volume = VolumeId::parse("vol-0123456789abcdef0").unwrap();
            let read = vec![(volume, NvmeStatistics::decode(&self.0).unwrap())];
            Box::pin(async { report("i-1".to_owned(), VolumeStatistics { read, failed }) })
        }
    }

    fn page() -> [u8; STATISTICS_PAGE_BYTES] {
        let mut page = [0; STATISTICS_PAGE_BYTES];
        let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &0x3C23_B510_u32.to_le_bytes());
        for (field, value) in (8..=88).step_by(8).zip(1_u64..) {
            put(field, &(value * 1_000_000).to_le_bytes());
        }
        for (histogram, operations) in [(512, 5_u32), (2056, 6_u32)] {
            put(histogram, &2_u32.to_le_bytes());
            put(histogram + 16, &1000_u64.to_le_bytes());
            put(histogram + 24, &operations.to_le_bytes());
            put(histogram + 32, &1000_u64.to_le_bytes());
            put(histogram + 40, &u64::MAX.to_le_bytes());
            put(histogram + 48, &7_u32.to_le_bytes());
        }
        page
    }

    #[tokio::test]
    async fn each_nvme_log_page_field_sets_its_metric() {
        let metrics = Metrics::default();
        metrics.set_disks(Recorded(page()));
        let page = metrics.scrape().await;
        let of_it = r#"instance_id="i-1",volume_id="vol-0123456789abcdef0""#;
        for (name, value) in [
            ("read_ops_total", "1e+06"),
            ("write_ops_total", "2e+06"),
            ("read_bytes_total", "3e+06"),
            ("write_bytes_total", "4e+06"),
            ("read_seconds_total", "5"),
            ("write_seconds_total", "6"),
            ("exceeded_iops_seconds_total", "7"),
            ("exceeded_tp_seconds_total", "8"),
            ("ec2_exceeded_iops_seconds_total", "9"),
            ("ec2_exceeded_tp_seconds_total", "10"),
            ("volume_queue_length", "1.1e+07"),
            ("read_io_latency_seconds_sum", "5"),
            ("read_io_latency_seconds_count", "12"),
            ("write_io_latency_seconds_sum", "6"),
            ("write_io_latency_seconds_count", "13"),
        ] {
            let line = format!("\naws_ebs_csi_{name}{{{of_it}}} {value}\n");
            assert!(page.contains(&line), "{line}{page}");
        }
        // The `le` label of a bin is its upper bound. Only `+Inf` counts the operations of the unbounded bin.
        for line in [
            format!(r#"aws_ebs_csi_read_io_latency_seconds_bucket{{{of_it},le="0.001"}} 5"#),
            format!(r#"aws_ebs_csi_read_io_latency_seconds_bucket{{{of_it},le="+Inf"}} 12"#),
            r#"aws_ebs_csi_nvme_collector_errors_total{instance_id="i-1"} 1"#.to_owned(),
            r#"aws_ebs_csi_nvme_collector_scrapes_total{instance_id="i-1"} 1"#.to_owned(),
            r#"aws_ebs_csi_nvme_collector_duration_seconds_count{instance_id="i-1"} 1"#.to_owned(),
        ] {
            assert!(page.contains(&line), "{line}: {page}");
        }
    }
}
