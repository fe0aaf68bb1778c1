//! File systems that the kernel keeps alive although they are mounted nowhere: frozen ones.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bounded;
use crate::config::MounterConfig;
use crate::device_number::DeviceNumber;
use crate::disk_parts::parts_of;
use crate::fs_type::FsType;
use crate::mounter::Mounter;
use crate::mountinfo::MountTable;
use crate::options::MountOptions;
use crate::os;
use crate::path::NodePath;

/// The kernel's drivers by their directories in sysfs, each with the types of the file systems that it lists there.
const DRIVERS: [(&str, &[FsType]); 2] =
    [("ext4", &[FsType::Ext4, FsType::Ext3, FsType::Ext2]), ("xfs", &[FsType::Xfs])];

impl Mounter {
    /// Thaws the file system of a disk that the kernel keeps alive although nothing of the disk is mounted in this mount
    /// table: mounts it at `place`, where it is thawed, and unmounts it again. A disk without such a file system is left as it
    /// is. True when one was thawed.
    ///
    /// # Errors
    /// When the mount table or sysfs cannot be read, or `place` cannot be made, unmounted or removed.
    pub async fn thaw_unmounted(&self, number: DeviceNumber, place: &NodePath) -> io::Result<bool> {
        if !self.uses_of(number).await?.mounts.is_empty() {
            return Ok(false);
        }
        let (config, at) = (Arc::clone(&self.config), self.config.sys.join("fs"));
        let alive = bounded::reading("looking for file systems in", &at, move || alive(&config, number)).await?;
        let mut thawed = false;
        for (node, fs_type) in alive {
            place.create_directory().await?;
            thawed |= self.thaw_by_mount(&node, fs_type, place).await?;
            place.remove().await?;
        }
        Ok(thawed)
    }

    /// The kernel gives a second mount the living file system, if that is of this type and as writable as asked for; else it
    /// refuses, since the disk is claimed.
    async fn thaw_by_mount(&self, node: &Path, fs_type: FsType, place: &NodePath) -> io::Result<bool> {
        for words in [&[][..], &["ro"]] {
            let options = MountOptions::parse(words.iter().copied()).map_err(io::Error::other)?;
            let (source, at) = (node.to_owned(), place.as_path().to_owned());
            let mount = move || os::mount(&source, &at, fs_type.as_str(), &options);
            if let Err(error) = bounded::changing("mounting", place.as_path(), mount).await {
                tracing::debug!(device = %node.display(), %fs_type, ?words, %error, "this is not what keeps the disk");
                continue;
            }
            let table = MountTable::read().await.map_err(io::Error::other)?;
            let at = place.in_table().await?;
            let mounted = table.topmost(&at).ok_or_else(|| io::Error::other("what was just mounted is not there"))?;
            let unmounted = self.unmount_top(place, mounted, false).await.map_err(io::Error::other)?;
            return Ok(unmounted.thawed);
        }
        Ok(false)
    }
}

/// The device nodes of a disk and its partitions whose file systems the kernel has in memory, with the types they may have.
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
