//! Volumes of this node that are not healthy, read from whoever looks at them when the page is asked for.

use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

/// A volume that is not healthy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnhealthyVolume {
    /// The volume's id.
    pub volume_id: String,
    /// `Inaccessible` or `Degraded`.
    pub status: &'static str,
    /// Why, in a word of a closed set.
    pub reason: &'static str,
}

/// Knows the volumes that are not healthy; must not block.
pub trait UnhealthyVolumes: std::fmt::Debug + Send + Sync + 'static {
    /// All of them, each once.
    fn unhealthy(&self) -> Vec<UnhealthyVolume>;
}

/// Shows a 1 for each.
#[derive(Debug)]
pub(super) struct UnhealthyCollector(pub(super) Arc<dyn UnhealthyVolumes>);

impl Collector for UnhealthyCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let help = "1 for each volume on this node that is not healthy, by status and reason";
        let mut family = encoder.encode_descriptor("aws_ebs_csi_volume_unhealthy", help, None, MetricType::Gauge)?;
        for volume in self.0.unhealthy() {
            let labels =
                [("volume_id", volume.volume_id.as_str()), ("status", volume.status), ("reason", volume.reason)];
            family.encode_family(&labels)?.encode_gauge(&1_i64)?;
        }
        Ok(())
    }
}
