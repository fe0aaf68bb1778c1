//! The storage of a node behind csi-proxy. It works with any proxy that serves version 1 of the interface, including
//! the Go proxy.
//!
//! The interface reports less than Windows. It does not report the target of a link, so a target path counts as correct
//! if it leads to the same volume as the staging path. It also does not report the contents of a disk without a file
//! system that Windows recognises. This project's csi-proxy has an additional call that reads such a disk. The driver
//! makes this call every time and does not cache which proxy serves the pipes, because another project's proxy may
//! replace it at any time. Without the call, the disk is not proven blank, and the driver formats it only if the
//! operator has allowed that ([`Unproven`]). The driver never removes a directory together with its contents.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi_proxy::contents::v1::{self as contents, disk_contents_client::DiskContentsClient};
use csi_proto::csi_proxy::disk::v1::{self as disk, disk_client::DiskClient};
use csi_proto::csi_proxy::filesystem::v1::{self as filesystem, filesystem_client::FilesystemClient};
use csi_proto::csi_proxy::volume::v1::{self as volume, volume_client::VolumeClient};
use csi_proto::csi_proxy::{ConnectError, Dial, Group, Version, connect, says_not_mounted};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;
use tonic::{Response, Status};
use winstorage::host::{Space, SpaceHost};
use winstorage::service::{Contents, Found, VolumeStats};
use winstorage::types::{DiskIds, DiskLocation, DiskNumber, VolumeGuid, WinPath};
use winstorage::{StorageError, WayError};

use crate::error::Cause;
use crate::proxy_error::ProxyError;
use crate::storage::{NodeStorage, Role, Seen};

/// The version of each group that all proxies since 1.0 serve.
const VERSION: &str = "v1";
/// The deadline for reads and small changes.
const QUICKLY: Duration = Duration::from_secs(120);
/// The deadline for formatting a large volume or flushing a full cache.
const SLOWLY: Duration = Duration::from_secs(15 * 60);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// What the driver does with a disk that has no recognised file system and that another project's csi-proxy cannot
/// read. The disk may be blank, or contain a Linux file system, a damaged NTFS, a locked BitLocker volume, or data
/// without a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unproven {
    Refuse,
    Format,
}

pub struct OverProxy {
    runtime: Handle,
    disks: DiskClient<Channel>,
    contents: DiskContentsClient<Channel>,
    volumes: VolumeClient<Channel>,
    files: FilesystemClient<Channel>,
    /// Measures the space at a path as this process sees it, because the proxy does not report it.
    own: Arc<dyn SpaceHost>,
    unproven: Unproven,
}

impl OverProxy {
    /// Connects to the three groups that a node needs. Must be called inside a Tokio runtime, which then runs the
    /// calls.
    pub async fn connect<D: Dial>(dial: &D, own: Arc<dyn SpaceHost>, unproven: Unproven) -> Result<Self, ConnectError> {
        let versions: [Version; 1] = [VERSION.parse().expect("a valid version")];
        let channel = async |group| Ok(connect(dial, group, &versions).await?.channel);
        let disks = channel(Group::Disk).await?;
        Ok(Self {
            runtime: Handle::current(),
            contents: DiskContentsClient::new(disks.clone()),
            disks: DiskClient::new(disks),
            volumes: VolumeClient::new(channel(Group::Volume).await?),
            files: FilesystemClient::new(channel(Group::Filesystem).await?),
            own,
            unproven,
        })
    }

    fn wait<T>(
        &self,
        call: &'static str,
        within: Duration,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, ProxyError> {
        match self.runtime.block_on(async { timeout(within, answer).await }) {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(failed(call, status)),
            Err(_elapsed) => Err(ProxyError::Late { call, within }),
        }
    }

    fn read_contents(&self, disk: DiskNumber, seed: &str) -> Result<Option<Contents>, ProxyError> {
        let call = "GetDiskContents";
        let request = contents::GetDiskContentsRequest { disk_number: disk.0, seed: seed.to_owned() };
        match self.wait(call, QUICKLY, self.contents.clone().get_disk_contents(request)) {
            Ok(found) => contents_of(call, found).map(Some),
            Err(ProxyError::Unsupported { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns what Windows recognises on the disk. Uses only calls that every proxy has.
    fn recognised(&self, disk: DiskNumber) -> Result<Seen, Cause> {
        let unread = |contents| Seen::Unread { contents, may_format: self.unproven == Unproven::Format };
        let all = self.volumes_on(disk)?;
        let mut formatted = Vec::new();
        for volume in &all {
            if self.is_formatted(volume)? {
                formatted.push(volume.clone());
            }
        }
        let count = formatted.len();
        Ok(match (<[VolumeGuid; 1]>::try_from(formatted), all.as_slice()) {
            (Ok([only]), _) => Seen::Read(Contents::FileSystem(only)),
            (Err(_), []) => unread(Contents::Blank),
            (Err(_), [only]) => unread(Contents::BlankVolume(only.clone())),
            (Err(_), several) => {
                Seen::Read(Contents::Foreign(format!("{} volumes, {count} of them with a file system", several.len())))
            }
        })
    }

    fn exists(&self, path: &str) -> Result<bool, ProxyError> {
        let mut files = self.files.clone();
        let request = filesystem::PathExistsRequest { path: path.to_owned() };
        Ok(self.wait("PathExists", QUICKLY, files.path_exists(request))?.exists)
    }

    /// Returns the volume at a path, or `None` if the proxy's error means that nothing is mounted there. Recognises the
    /// errors of all proxies.
    fn shown(&self, path: &str) -> Result<Option<VolumeGuid>, ProxyError> {
        let call = "GetVolumeIDFromTargetPath";
        let mut volumes = self.volumes.clone();
        let request = volume::GetVolumeIdFromTargetPathRequest { target_path: path.to_owned() };
        match self.wait(call, QUICKLY, volumes.get_volume_id_from_target_path(request)) {
            Ok(shown) => Ok(Some(guid(call, &shown.volume_id)?)),
            Err(ProxyError::Refused { message, .. }) if says_not_mounted(&message) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn volumes_on(&self, disk: DiskNumber) -> Result<Vec<VolumeGuid>, ProxyError> {
        let call = "ListVolumesOnDisk";
        let mut volumes = self.volumes.clone();
        let request = volume::ListVolumesOnDiskRequest { disk_number: disk.0, partition_number: 0 };
        let found = self.wait(call, QUICKLY, volumes.list_volumes_on_disk(request))?.volume_ids;
        // Proxies of the PowerShell era return an empty id if there is no volume.
        found.iter().filter(|id| !id.is_empty()).map(|id| guid(call, id)).collect()
    }

    fn is_formatted(&self, volume: &VolumeGuid) -> Result<bool, ProxyError> {
        let mut volumes = self.volumes.clone();
        let request = volume::IsVolumeFormattedRequest { volume_id: volume.to_string() };
        Ok(self.wait("IsVolumeFormatted", QUICKLY, volumes.is_volume_formatted(request))?.formatted)
    }
}

fn failed(call: &'static str, status: Status) -> ProxyError {
    // If a status has a source, it is an error of the connection.
    let is_connection = std::error::Error::source(&status).is_some();
    if is_connection {
        return ProxyError::Unreachable { call, status: Box::new(status) };
    }
    // All errors of Windows and of the proxy's rules have the same code. Other codes come from the gRPC server itself.
    let is = |other: Status| status.code() == other.code();
    let message = status.message().to_owned();
    if is(Status::unimplemented("")) {
        ProxyError::Unsupported { call, message }
    } else if is(Status::resource_exhausted("")) || is(Status::deadline_exceeded("")) {
        ProxyError::Busy { call, message }
    } else {
        ProxyError::Refused { call, message }
    }
}

/// Converts the reply. An invalid reply is an error, so that it never counts as a blank disk.
fn contents_of(call: &'static str, found: contents::GetDiskContentsResponse) -> Result<Contents, ProxyError> {
    Ok(match found.contents() {
        contents::Contents::Blank => Contents::Blank,
        contents::Contents::OfflinePartition => Contents::Offline,
        contents::Contents::ComingVolume => Contents::Coming,
        contents::Contents::BlankVolume => Contents::BlankVolume(guid(call, &found.volume_id)?),
        contents::Contents::FileSystem => Contents::FileSystem(guid(call, &found.volume_id)?),
        contents::Contents::Foreign => Contents::Foreign(found.description),
        contents::Contents::Unspecified => {
            return Err(ProxyError::Odd { call, what: format!("unknown disk contents {}", found.contents) });
        }
    })
}

fn guid(call: &'static str, text: &str) -> Result<VolumeGuid, ProxyError> {
    VolumeGuid::parse(text).map_err(|error| ProxyError::Odd { call, what: error.to_string() })
}

fn bytes(call: &'static str, count: i64) -> Result<u64, ProxyError> {
    u64::try_from(count).map_err(|_| ProxyError::Odd { call, what: format!("{count} bytes") })
}

fn or_missing<T>(answer: Result<T, ProxyError>, missing: StorageError) -> Result<T, Cause> {
    answer.map_err(|error| if error.says("not found") { missing.into() } else { error.into() })
}

impl NodeStorage for OverProxy {
    fn look(&self, path: &str, role: Role) -> Result<Found, Cause> {
        if !self.exists(path)? {
            return Ok(Found::Missing);
        }
        // The proxy does not report whether a directory is empty. Calls that need an empty directory will fail.
        Ok(match (self.shown(path)?, role) {
            (None, _) => Found::Directory { empty: true },
            (Some(volume), Role::Staging) => Found::MountPoint(volume),
            (Some(volume), Role::Target) => Found::Link { target: volume.to_string() },
        })
    }

    fn list_disk_locations(&self) -> Result<BTreeMap<DiskNumber, DiskLocation>, Cause> {
        let request = disk::ListDiskLocationsRequest {};
        let all = self.wait("ListDiskLocations", QUICKLY, self.disks.clone().list_disk_locations(request))?;
        let place = |at: disk::DiskLocation| DiskLocation {
            adapter: at.adapter,
            bus: at.bus,
            target: at.target,
            lun: at.lunid,
        };
        Ok(all.disk_locations.into_iter().map(|(number, at)| (DiskNumber(number), place(at))).collect())
    }

    fn list_disk_ids(&self) -> Result<BTreeMap<DiskNumber, DiskIds>, Cause> {
        let request = disk::ListDiskIDsRequest {};
        let all = self.wait("ListDiskIDs", QUICKLY, self.disks.clone().list_disk_i_ds(request))?.disk_i_ds;
        let ids = |ids: disk::DiskIDs| DiskIds { page83: ids.page83, serial_number: ids.serial_number };
        Ok(all.into_iter().map(|(number, found)| (DiskNumber(number), ids(found))).collect())
    }

    fn disk_number_of_volume(&self, volume: &str) -> Result<DiskNumber, Cause> {
        let call = "GetDiskNumberFromVolumeID";
        let request = volume::GetDiskNumberFromVolumeIdRequest { volume_id: volume.to_owned() };
        let found = self.wait(call, QUICKLY, self.volumes.clone().get_disk_number_from_volume_id(request));
        let guid = guid(call, volume)?;
        Ok(DiskNumber(or_missing(found, StorageError::VolumeNotFound(guid))?.disk_number))
    }

    fn volume_of_path(&self, path: &str) -> Result<VolumeGuid, Cause> {
        let shown = self.shown(path)?;
        shown.ok_or_else(|| StorageError::NotMounted { path: path.to_owned() }.into())
    }

    fn disk_contents(&self, disk: DiskNumber, seed: &str) -> Result<Seen, Cause> {
        match self.read_contents(disk, seed)? {
            Some(contents) => Ok(Seen::Read(contents)),
            None => self.recognised(disk),
        }
    }

    fn pause(&self, time: Duration) {
        self.runtime.block_on(async { sleep(time).await });
    }

    fn partition_disk(&self, disk: DiskNumber) -> Result<(), Cause> {
        let request = disk::PartitionDiskRequest { disk_number: disk.0 };
        Ok(self.wait("PartitionDisk", SLOWLY, self.disks.clone().partition_disk(request)).map(drop)?)
    }

    fn format_volume(&self, volume: &str) -> Result<(), Cause> {
        let request = volume::FormatVolumeRequest { volume_id: volume.to_owned() };
        Ok(self.wait("FormatVolume", SLOWLY, self.volumes.clone().format_volume(request)).map(drop)?)
    }

    fn disk_state(&self, disk: DiskNumber) -> Result<bool, Cause> {
        let request = disk::GetDiskStateRequest { disk_number: disk.0 };
        let state = self.wait("GetDiskState", QUICKLY, self.disks.clone().get_disk_state(request));
        Ok(or_missing(state, StorageError::DiskNotFound(disk))?.is_online)
    }

    fn set_disk_state(&self, disk: DiskNumber, online: bool) -> Result<(), Cause> {
        let request = disk::SetDiskStateRequest { disk_number: disk.0, is_online: online };
        let done = self.wait("SetDiskState", QUICKLY, self.disks.clone().set_disk_state(request));
        or_missing(done, StorageError::DiskNotFound(disk)).map(drop)
    }

    fn disk_size(&self, disk: DiskNumber) -> Result<u64, Cause> {
        let call = "GetDiskStats";
        let request = disk::GetDiskStatsRequest { disk_number: disk.0 };
        Ok(bytes(call, self.wait(call, QUICKLY, self.disks.clone().get_disk_stats(request))?.total_bytes)?)
    }

    fn rescan(&self) -> Result<(), Cause> {
        Ok(self.wait("Rescan", QUICKLY, self.disks.clone().rescan(disk::RescanRequest {})).map(drop)?)
    }

    fn volume_stats(&self, volume: &str) -> Result<VolumeStats, Cause> {
        let call = "GetVolumeStats";
        let request = volume::GetVolumeStatsRequest { volume_id: volume.to_owned() };
        let stats = self.wait(call, QUICKLY, self.volumes.clone().get_volume_stats(request))?;
        Ok(VolumeStats { total: bytes(call, stats.total_bytes)?, used: bytes(call, stats.used_bytes)? })
    }

    /// Retries for a while after any rejection, because the reply does not contain StorageWMI's code 4 (busy).
    fn resize_volume(&self, volume: &str, size: i64, patience: Duration) -> Result<u64, Cause> {
        let (mut waited, mut pause) = (Duration::ZERO, FIRST_PAUSE);
        loop {
            let request = volume::ResizeVolumeRequest { volume_id: volume.to_owned(), size_bytes: size };
            match self.wait("ResizeVolume", SLOWLY, self.volumes.clone().resize_volume(request)) {
                Ok(_done) => return Ok(self.volume_stats(volume)?.total),
                Err(error @ ProxyError::Refused { .. }) if waited < patience => {
                    tracing::info!(volume, %error, "retrying resize");
                    self.pause(pause);
                    waited += pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn mkdir(&self, path: &str) -> Result<(), Cause> {
        let request = filesystem::MkdirRequest { path: path.to_owned() };
        Ok(self.wait("Mkdir", QUICKLY, self.files.clone().mkdir(request)).map(drop)?)
    }

    fn rmdir(&self, path: &str, force: bool) -> Result<(), Cause> {
        if !self.exists(path)? {
            return Err(StorageError::Missing { path: path.to_owned() }.into());
        }
        let request = filesystem::RmdirRequest { path: path.to_owned(), force };
        Ok(self.wait("Rmdir", QUICKLY, self.files.clone().rmdir(request)).map(drop)?)
    }

    fn mount_volume(&self, volume: &str, path: &str) -> Result<(), Cause> {
        let request = volume::MountVolumeRequest { volume_id: volume.to_owned(), target_path: path.to_owned() };
        Ok(self.wait("MountVolume", QUICKLY, self.volumes.clone().mount_volume(request)).map(drop)?)
    }

    fn unmount_volume(&self, volume: &str, path: &str) -> Result<(), Cause> {
        let request = volume::UnmountVolumeRequest { volume_id: volume.to_owned(), target_path: path.to_owned() };
        Ok(self.wait("UnmountVolume", SLOWLY, self.volumes.clone().unmount_volume(request)).map(drop)?)
    }

    fn create_symlink(&self, source: &str, link: &str) -> Result<(), Cause> {
        if self.exists(link)? {
            let shown = self.shown(link)?;
            if shown.is_some() && shown == self.shown(source)? {
                return Ok(());
            }
            return Err(StorageError::Way(WayError::Exists { path: link.to_owned() }).into());
        }
        let request = filesystem::CreateSymlinkRequest { source_path: source.to_owned(), target_path: link.to_owned() };
        Ok(self.wait("CreateSymlink", QUICKLY, self.files.clone().create_symlink(request)).map(drop)?)
    }

    fn space(&self, path: &str) -> Result<Space, Cause> {
        let own = WinPath::normalise(path).ok_or_else(|| StorageError::Missing { path: path.to_owned() })?;
        let error = match self.own.space(&own) {
            Ok(space) => return Ok(space),
            Err(error) => error,
        };
        // In a container, the link may not lead to the volume: ask the proxy instead.
        let Some(volume) = self.shown(path)? else { return Err(StorageError::from(error).into()) };
        tracing::debug!(path, %error, "failed to read the volume's space, asking csi-proxy");
        let VolumeStats { total, used } = self.volume_stats(&volume.to_string())?;
        let free = total.saturating_sub(used);
        Ok(Space { available: free, total, free })
    }
}
