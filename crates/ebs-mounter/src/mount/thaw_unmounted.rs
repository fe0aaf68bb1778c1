//! Thaws frozen file systems that the kernel keeps in memory without a mount.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bounded;
use crate::config::MounterConfig;
use crate::disk_parts::parts_of;
use crate::fs_type::FsType;
use crate::mounter::Mounter;
use crate::mountinfo::MountTable;
use crate::options::MountOptions;
use crate::os::{self, DeviceNumber};
use crate::path::NodePath;

/// The sysfs directories of the kernel's drivers, each with the types of the file systems that it contains.
const DRIVERS: [(&str, &[FsType]); 2] =
    [("ext4", &[FsType::Ext4, FsType::Ext3, FsType::Ext2]), ("xfs", &[FsType::Xfs])];

impl Mounter {
    /// Thaws a file system that the kernel keeps in memory without a mount. To do so, mounts it at `place`.
    pub async fn thaw_unmounted(&self, number: DeviceNumber, place: &NodePath) -> io::Result<bool> {
        if !self.mounts_of_disk(number).await?.mounts.is_empty() {
            return Ok(false);
        }
        let (of, at) = (Arc::clone(&self.config), self.config.sys.join("fs"));
        let alive = bounded::reading("searching for file systems in", &at, move || alive(&of, number)).await?;
        let mut thawed = false;
        for (node, fs_type) in alive {
            place.create_directory().await?;
            thawed |= self.thaw_by_mount(&node, fs_type, place).await?;
            place.remove().await?;
        }
        Ok(thawed)
    }

    /// Thaws a file system that the kernel keeps in memory, by mounting it. If type and access mode match, the kernel
    /// mounts the file system from memory. Otherwise the mount fails, because the disk is claimed.
    async fn thaw_by_mount(&self, node: &Path, fs_type: FsType, place: &NodePath) -> io::Result<bool> {
        for words in [&[][..], &["ro"]] {
            let options = MountOptions::parse(words.iter().copied()).map_err(io::Error::other)?;
            let (source, at) = (node.to_owned(), place.as_path().to_owned());
            let mount = move || os::mount(&source, &at, fs_type.as_str(), &options);
            if let Err(error) = bounded::changing("mounting", place.as_path(), mount).await {
                tracing::debug!(
                    device = %node.display(), %fs_type, ?words, %error,
                    "failed to mount the file system, so it does not hold the disk"
                );
                continue;
            }
            let table = MountTable::read().await.map_err(io::Error::other)?;
            let at = place.in_table().await?;
            let mounted =
                table.topmost(&at).ok_or_else(|| io::Error::other("the new mount is not in the mount table"))?;
            let unmounted = self.unmount_top(place, mounted, false).await.map_err(io::Error::other)?;
            return Ok(unmounted.thawed);
        }
        Ok(false)
    }
}

/// Returns the device nodes of a disk that have a file system in the kernel's memory, each with the possible types.
fn alive(config: &MounterConfig, number: DeviceNumber) -> io::Result<Vec<(PathBuf, FsType)>> {
    let mut found = Vec::new();
    for part in parts_of(config, number)? {
        let Some(name) = part.file_name() else { continue };
        for (driver, types) in DRIVERS {
            if config.sys.join("fs").join(driver).join(name).try_exists()? {
                found.extend(types.iter().map(|fs_type| (config.dev.join(name), *fs_type)));
            }
        }
    }
    Ok(found)
}
