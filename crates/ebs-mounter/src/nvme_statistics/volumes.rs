//! The statistics of the driver's volumes on this node, for its metrics.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::VolumeId;
use tokio::task::JoinSet;

use super::{NvmeStatistics, StatisticsError};
use crate::config::MounterConfig;
use crate::device::{IdentityError, Places, UsedDisk, disks_in_use, open_volume};
use crate::mounter::Mounter;
use crate::mountinfo::{MountTable, MountTableError};
use crate::{bounded, os};

/// Time limit for the search for volumes, and for the query of each volume: a metrics scrape does not wait long.
const WITHIN: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub struct VolumeStatistics {
    pub read: Vec<(VolumeId, NvmeStatistics)>,
    /// Errors of volumes, or of devices whose volume is unknown.
    pub failed: Vec<StatisticsError>,
}

impl Mounter {
    /// Reads the statistics of all volumes that are mounted or bound at registered paths or below `prefix`,
    /// concurrently, in at most 6 s. Leaves out a volume that hangs, and does not query it again while it hangs.
    pub async fn volume_statistics(&self, prefix: Option<&Path>) -> VolumeStatistics {
        let registered = self.register.volumes().into_values().flat_map(|volume| volume.paths);
        let at = registered.map(|path| path.as_path().to_owned());
        let mut all = VolumeStatistics::default();
        let mut queries = JoinSet::new();
        match used_disks(&self.config, Places::new(prefix, at)).await {
            Ok((disks, failed)) => {
                all.failed.extend(failed.into_iter().map(|source| StatisticsError::Search { source }));
                for disk in disks {
                    queries.spawn(statistics_of(Arc::clone(&self.config), disk));
                }
            }
            Err(source) => all.failed.push(StatisticsError::Search { source }),
        }
        while let Some(answer) = queries.join_next().await {
            match answer {
                Ok(Ok(read)) => all.read.extend(read),
                Ok(Err(error)) => all.failed.push(error),
                Err(panic) => all.failed.push(StatisticsError::Search { source: std::io::Error::other(panic).into() }),
            }
        }
        all.read.sort_by(|(one, _), (other, _)| one.cmp(other));
        // If two disks report the same volume, neither is more credible: keep the first.
        all.read.dedup_by(|(one, _), (other, _)| one == other);
        all
    }
}

async fn used_disks(
    config: &Arc<MounterConfig>,
    places: Places,
) -> Result<(Vec<UsedDisk>, Vec<IdentityError>), IdentityError> {
    let table = MountTable::read().await.map_err(|MountTableError::Read(error)| IdentityError::from(error))?;
    let (of, place) = (Arc::clone(config), config.sys.join("block/statistics"));
    let search = move || Ok(disks_in_use(&of, &table, &places.with_links_resolved()));
    bounded::reading_within(WITHIN, "searching for volumes in", &place, search).await
}

/// Reads the statistics of one volume. The read has a place of its own, so mounts of the volume do not wait for it.
async fn statistics_of(
    config: Arc<MounterConfig>,
    disk: UsedDisk,
) -> Result<Option<(VolumeId, NvmeStatistics)>, StatisticsError> {
    let (node, place) = (disk.node.clone(), disk.node.join("statistics"));
    let read = move || -> Result<_, IdentityError> {
        let Some((volume, file)) = open_volume(&config, &disk)? else { return Ok(None) };
        Ok(Some((volume, os::nvme_statistics_page(&file)?)))
    };
    let answer = bounded::reading_within(WITHIN, "reading the statistics of", &place, read).await;
    let answer = answer.map_err(|source| StatisticsError::Disk { path: node.clone(), source })?;
    let Some((volume, page)) = answer else { return Ok(None) };
    let statistics = NvmeStatistics::decode(&page).map_err(|source| StatisticsError::Page { path: node, source })?;
    Ok(Some((volume, statistics)))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::bounded::Stuck;
    use crate::os::DeviceNumber;

    #[tokio::test]
    async fn hanging_volume_is_not_queried_again_and_blocks_no_others() {
        let directory = tempfile::tempdir().unwrap();
        let node = directory.path().join("nvme7n7");
        let disk = UsedDisk { number: DeviceNumber { major: 259, minor: 7 }, node: node.clone() };
        let (release, held) = mpsc::channel::<()>();
        let hangs = move || {
            let _ = held.recv();
            Ok::<(), Stuck>(())
        };
        let hung = bounded::reading_within(Duration::from_millis(20), "asking", &node.join("statistics"), hangs).await;
        assert!(hung.is_err());
        let config = Arc::new(MounterConfig::new(directory.path()));
        let outcome = statistics_of(config, disk).await;
        let Err(StatisticsError::Disk { path, source: IdentityError::Stuck(stuck) }) = outcome else {
            panic!("{outcome:?}")
        };
        assert!(path == node && stuck.to_string().contains("earlier system call"), "{stuck}");
        bounded::reading("opening", &node, || Ok::<(), Stuck>(())).await.expect("the disk itself is free");
        release.send(()).unwrap();
    }

    #[tokio::test]
    async fn vanished_disk_has_no_statistics_and_causes_no_error() {
        let directory = tempfile::tempdir().unwrap();
        let disk = UsedDisk { number: DeviceNumber { major: 259, minor: 8 }, node: directory.path().join("nvme8n8") };
        let gone = statistics_of(Arc::new(MounterConfig::new(directory.path())), disk).await;
        assert!(matches!(gone, Ok(None)), "{gone:?}");
    }
}
