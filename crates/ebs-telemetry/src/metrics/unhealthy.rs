//! Unhealthy volumes of this node, which are read at each scrape.

use component_base::metrics::{Family, Sample, float};

use super::table;

/// An unhealthy volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnhealthyVolume {
    pub volume_id: String,
    /// `Inaccessible` or `Degraded`.
    pub status: &'static str,
    /// The reason, from a closed set.
    pub reason: &'static str,
}

/// A volume whose file system is smaller than its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotGrownVolume {
    pub volume_id: String,
    /// The number of bytes of the disk that the file system does not use.
    pub missing: u64,
}

/// Returns the value 1 for each unhealthy volume, and the missing bytes of each volume that has not grown.
pub(super) fn families(unhealthy: &[UnhealthyVolume], not_grown: &[NotGrownVolume]) -> [Family; 2] {
    let ill = |volume: &UnhealthyVolume| Sample::number(&[volume.reason, volume.status, &volume.volume_id], 1.0);
    let unhealthy = unhealthy.iter().map(ill).collect();
    let behind = |volume: &NotGrownVolume| Sample::number(&[&volume.volume_id], float(volume.missing));
    let not_grown = not_grown.iter().map(behind).collect();
    [Family { desc: &table::UNHEALTHY, samples: unhealthy }, Family { desc: &table::NOT_GROWN, samples: not_grown }]
}
