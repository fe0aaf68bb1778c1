//! Volumes of this node that are not healthy, read from whoever looks at them when the page is asked for.

use super::exposition::{Family, Sample, float};
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

/// A volume whose file system is smaller than its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotGrownVolume {
    /// The volume's id.
    pub volume_id: String,
    /// Bytes of the disk that the file system does not use.
    pub missing: u64,
}

/// Knows the volumes that are not healthy; must not block.
pub trait UnhealthyVolumes: std::fmt::Debug + Send + Sync + 'static {
    /// All of them, each once.
    fn unhealthy(&self) -> Vec<UnhealthyVolume>;

    /// Those whose growth failed or is overdue, each once.
    fn not_grown(&self) -> Vec<NotGrownVolume>;
}

/// A 1 for each that is not healthy, and for each that has not grown its bytes.
pub(super) fn families(source: &dyn UnhealthyVolumes) -> [Family; 2] {
    let ill = |volume: &UnhealthyVolume| Sample::number(&[volume.reason, volume.status, &volume.volume_id], 1.0);
    let unhealthy = source.unhealthy().iter().map(ill).collect();
    let behind = |volume: &NotGrownVolume| Sample::number(&[&volume.volume_id], float(volume.missing));
    let not_grown = source.not_grown().iter().map(behind).collect();
    [Family { row: &table::UNHEALTHY, samples: unhealthy }, Family { row: &table::NOT_GROWN, samples: not_grown }]
}
