//! Volumes of this node that are not healthy, read from whoever looks at them when the page is asked for.

use super::exposition::{Family, Sample};
use super::table;

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

/// A 1 for each.
pub(super) fn family(source: &dyn UnhealthyVolumes) -> Family {
    let sample = |volume: &UnhealthyVolume| Sample::number(&[volume.reason, volume.status, &volume.volume_id], 1.0);
    Family { row: &table::UNHEALTHY, samples: source.unhealthy().iter().map(sample).collect() }
}
