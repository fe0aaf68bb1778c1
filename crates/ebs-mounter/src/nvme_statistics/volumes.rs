//! The statistics of all volumes that the driver has on this node, for its metrics.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ebs_types::VolumeId;
use tokio::task::JoinSet;

use super::{NvmeStatistics, StatisticsError};
use crate::bounded;
use crate::config::MounterConfig;
use crate::device::{IdentityError, Places, UsedDisk, disks_in_use, open_volume};
use crate::mounter::Mounter;
use crate::mountinfo::{MountTable, MountTableError};
use crate::os;

/// How long the search for volumes, and then each of them, may take: who scrapes metrics does not wait long.
const WITHIN: Duration = Duration::from_secs(3);

/// What the volumes of this node say of themselves.
#[derive(Debug, Default)]
pub struct VolumeStatistics {
    /// By volume, each once.
    pub read: Vec<(VolumeId, NvmeStatistics)>,
    /// What was not to be learnt, and why: of a volume, or of a device whose volume is not known.
    pub failed: Vec<StatisticsError>,
}

impl Mounter {
    /// Asks the controllers of all volumes that are mounted or bound where the driver has registered them, or below
    /// `prefix`, for their statistics. Volumes are asked at once and each for itself: one that hangs is missing, and as long as
    /// it hangs it is not asked again. Takes twice three seconds at most.
    ///
    /// Cancellation: may be dropped; what hangs then counts as hanging until it comes back.
    pub async fn volume_statistics(&self, prefix: Option<&Path>) -> VolumeStatistics {
        let mut all = VolumeStatistics::default();
        let mut asked = JoinSet::new();
        match self.used_disks(prefix).await {
            Ok((disks, failed)) => {
                all.failed.extend(failed.into_iter().map(|source| StatisticsError::Search { source }));
                for disk in disks {
                    asked.spawn(statistics_of(Arc::clone(&self.config), disk));
                }
            }
            Err(source) => all.failed.push(StatisticsError::Search { source }),
        }
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(Some(read))) => all.read.push(read),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => all.failed.push(error),
                Err(panic) => all.failed.push(StatisticsError::Search { source: std::io::Error::other(panic).into() }),
            }
        }
        all.read.sort_by(|(one, _), (other, _)| one.cmp(other));
        // Two disks that say that they are one volume: neither is believed more than the other.
        all.read.dedup_by(|(one, _), (other, _)| one == other);
        all
    }

    async fn used_disks(&self, prefix: Option<&Path>) -> Result<(Vec<UsedDisk>, Vec<IdentityError>), IdentityError> {
        let registered = self.registered();
        let at = registered.values().flat_map(|volume| &volume.paths).map(|path| path.as_path().to_owned());
        let (config, places) = (Arc::clone(&self.config), Places::new(prefix, at));
        let table = MountTable::read().await.map_err(|MountTableError::Read(error)| IdentityError::from(error))?;
        let place = self.config.sys.join("block/statistics");
        let look = move || Ok(disks_in_use(&config, &table, &places.spelled()));
        bounded::reading_within(WITHIN, "looking for volumes in", &place, look).await
    }
}

/// One look, on a thread of its own and under a name of its own: nobody who mounts or unmounts the volume has to wait for it,
/// and it waits for none of them.
async fn statistics_of(
    config: Arc<MounterConfig>,
    disk: UsedDisk,
) -> Result<Option<(VolumeId, NvmeStatistics)>, StatisticsError> {
    let (node, place) = (disk.node.clone(), disk.node.join("statistics"));
    let look = move || -> Result<_, IdentityError> {
        let Some((volume, file)) = open_volume(&config, &disk)? else { return Ok(None) };
        Ok(Some((volume, os::nvme_statistics_page(&file)?)))
    };
    let answer = bounded::reading_within(WITHIN, "asking for the statistics", &place, look).await;
    let (volume, page) = match answer {
        Ok(Some(answer)) => answer,
        Ok(None) => return Ok(None),
        Err(source) => return Err(StatisticsError::Disk { path: node, source }),
    };
    let statistics = NvmeStatistics::decode(&page).map_err(|source| StatisticsError::Page { path: node, source })?;
    Ok(Some((volume, statistics)))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::bounded::Stuck;
    use crate::device_number::DeviceNumber;

    /// A volume that hangs when it is asked for its statistics is not asked again before it has answered, and nobody else is
    /// refused the disk for that.
    #[tokio::test]
    async fn a_volume_that_hangs_is_not_asked_again_and_nobody_else_is_refused_the_disk() {
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
        assert!(path == node && stuck.to_string().contains("earlier call"), "{stuck}");
        bounded::reading("opening", &node, || Ok::<(), Stuck>(())).await.expect("the disk itself is free");
        release.send(()).unwrap();
    }

    /// A disk that has gone since it was found is no volume any more, and no failure.
    #[tokio::test]
    async fn a_disk_that_has_gone_is_no_failure() {
        let directory = tempfile::tempdir().unwrap();
        let disk = UsedDisk { number: DeviceNumber { major: 259, minor: 8 }, node: directory.path().join("nvme8n8") };
        let gone = statistics_of(Arc::new(MounterConfig::new(directory.path())), disk).await;
        assert!(matches!(gone, Ok(None)), "{gone:?}");
    }
}
