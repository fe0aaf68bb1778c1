//! The operation that expands a volume.

use std::time::Duration;

use tracing::{info, warn};

use super::STORAGE_BUSY;
use super::volume::volume_id;
use crate::host::Partition;
use crate::{Storage, StorageError};

/// The minimum growth in bytes that justifies a resize. The reference uses the same limit, and clients rely on it.
pub const TOLERANCE: u64 = 100 * 1024 * 1024;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

impl Storage {
    /// Grows the volume's partition and file system to `size` bytes, or to the maximum if `size` is 0. Returns the new
    /// size of the partition. Skips a growth of less than 100 MiB, and never shrinks.
    ///
    /// Repeats the resize for at most `patience` while another service holds the volume.
    pub fn resize_volume(&self, volume: &str, size: i64, patience: Duration) -> Result<u64, StorageError> {
        if volume.is_empty() {
            return Err(volume_id(volume).map_or_else(|empty| empty, StorageError::VolumeNotFound));
        }
        let wanted = u64::try_from(size).map_err(|_| StorageError::NegativeSize { size, volume: volume.to_owned() })?;
        let volume = volume_id(volume)?;
        let disk = self.changeable_volume("ResizeVolume", &volume)?.disk.number;
        let _held = self.hold(disk, "ResizeVolume")?;
        let ours = self.changeable_volume("ResizeVolume", &volume)?;
        let [partition] = &ours.partitions[..] else {
            return Err(StorageError::Spanned { volume, count: ours.partitions.len() });
        };
        let wanted = if wanted == 0 { self.host.largest_size(partition)? } else { wanted };
        if wanted < partition.size.saturating_add(TOLERANCE) {
            if wanted > partition.size {
                warn!(%volume, wanted, is = partition.size, "skipping growth of less than 100 MiB");
            }
            return Ok(partition.size);
        }
        self.grow(partition, wanted, patience)?;
        self.host.refresh_disk(&ours.disk)?;
        Ok(wanted)
    }

    fn grow(&self, partition: &Partition, size: u64, patience: Duration) -> Result<(), StorageError> {
        let end = self.host.native().elapsed().saturating_add(patience);
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.host.resize_partition(partition, size) {
                Err(error) if error.is_method(STORAGE_BUSY) => error,
                resized => return Ok(resized?),
            };
            let left = end.saturating_sub(self.host.native().elapsed());
            if left < pause {
                return Err(error.into());
            }
            info!(disk = %partition.disk, partition = %partition.number, %error, "volume is in use, retrying its resize");
            self.host.native().pause(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
