//! The statistics of an EBS volume: log page 0xD0 of its NVMe controller.

mod volumes;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::bounded;
use crate::device::{Device, IdentityError};
use crate::mounter::Mounter;
use crate::os;
use crate::probe::{le32, le64};

pub use volumes::VolumeStatistics;

pub const STATISTICS_PAGE_BYTES: usize = 4096;

/// The first word of the statistics page, for an EBS volume and then for an instance-store disk.
const EBS: u32 = 0x3C23_B510;
const INSTANCE_STORE: u32 = 0xEC2C_0D7E;

/// Offsets of the two histograms in bytes, maximum number of their bins, and size of a bin in bytes.
const READ_LATENCY: usize = 512;
const WRITE_LATENCY: usize = 2056;
const MAX_BINS: usize = 64;
const BIN_BYTES: usize = 24;
const FIRST_BIN: usize = 8;

/// Operations in one direction since the attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transfers {
    pub operations: u64,
    pub bytes: u64,
    pub microseconds: u64,
}

/// How long the workload exceeded a limit, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exceeded {
    pub iops_microseconds: u64,
    pub throughput_microseconds: u64,
}

/// The operations with a latency in one range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyBin {
    pub lower: u64,
    /// Upper end in microseconds; `None` for the last range, which has no end.
    pub upper: Option<u64>,
    pub operations: u32,
}

/// A decoded page. All counters cover the time since the attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvmeStatistics {
    /// Version of the page layout, 0 today. Later versions keep these fields.
    pub version: u32,
    pub reads: Transfers,
    pub writes: Transfers,
    /// How long the demand exceeded the limits of the volume.
    pub volume_exceeded: Exceeded,
    /// How long the demand exceeded the limits of the instance, over all its volumes.
    pub instance_exceeded: Exceeded,
    /// Number of operations that are waiting now.
    pub queue_length: u64,
    /// At most 64 ranges, in the order of the page.
    pub read_latency: Vec<LatencyBin>,
    pub write_latency: Vec<LatencyBin>,
}

/// A log page that does not belong to an EBS volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StatisticsPageError {
    #[error("the log page belongs to an instance-store disk, not to an EBS volume")]
    InstanceStore,
    #[error("the log page begins with {found:#010x}, not with the magic number of an EBS volume")]
    Magic { found: u32 },
}

/// Why the statistics of a volume could not be read. The read changes nothing.
#[derive(Debug, thiserror::Error)]
pub enum StatisticsError {
    /// The controller or the kernel rejects the request, for example because the disk is not an NVMe disk.
    #[error("read the statistics of {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("parse the statistics of {}", path.display())]
    Page { path: PathBuf, source: StatisticsPageError },
    /// The disk reports no volume id, does not answer, or has no statistics.
    #[error("identify {} to read its statistics", path.display())]
    Disk { path: PathBuf, source: IdentityError },
    /// The list of volumes, or the identity of a device in it, could not be read.
    #[error("search for volumes")]
    Search { source: IdentityError },
}

impl NvmeStatistics {
    /// Decodes the page, whose numbers are little-endian. Ignores reserved words, which a later version may use.
    pub fn decode(page: &[u8; STATISTICS_PAGE_BYTES]) -> Result<Self, StatisticsPageError> {
        match le32(page, 0) {
            EBS => {}
            INSTANCE_STORE => return Err(StatisticsPageError::InstanceStore),
            found => return Err(StatisticsPageError::Magic { found }),
        }
        let transfers = |operations, bytes, time| Transfers {
            operations: le64(page, operations),
            bytes: le64(page, bytes),
            microseconds: le64(page, time),
        };
        let exceeded = |iops, throughput| Exceeded {
            iops_microseconds: le64(page, iops),
            throughput_microseconds: le64(page, throughput),
        };
        Ok(Self {
            version: le32(page, 4),
            reads: transfers(8, 24, 40),
            writes: transfers(16, 32, 48),
            volume_exceeded: exceeded(56, 64),
            instance_exceeded: exceeded(72, 80),
            queue_length: le64(page, 88),
            read_latency: histogram(page, READ_LATENCY),
            write_latency: histogram(page, WRITE_LATENCY),
        })
    }
}

fn histogram(page: &[u8; STATISTICS_PAGE_BYTES], at: usize) -> Vec<LatencyBin> {
    let bins = usize::try_from(le32(page, at)).unwrap_or(MAX_BINS).min(MAX_BINS);
    let starts = (0..bins).map(|bin| at + FIRST_BIN + bin * BIN_BYTES);
    let read = starts.map(|start| LatencyBin {
        lower: le64(page, start),
        upper: Some(le64(page, start + 8)).filter(|upper| *upper != u64::MAX),
        operations: le32(page, start + 16),
    });
    read.filter(|bin| bin.upper.is_none_or(|upper| upper > bin.lower)).collect()
}

impl Mounter {
    /// Reads the NVMe statistics of a volume (for a partition, of its disk) through the held descriptor.
    pub async fn nvme_statistics(&self, device: &Device) -> Result<NvmeStatistics, StatisticsError> {
        let (file, path) = (Arc::clone(device.file()), device.path().to_owned());
        let ask = move || os::nvme_statistics_page(&file);
        let page = bounded::reading::<_, io::Error, _>("reading the statistics of", device.path(), ask).await;
        let page = page.map_err(|source| StatisticsError::Read { path: path.clone(), source })?;
        NvmeStatistics::decode(&page).map_err(|source| StatisticsError::Page { path, source })
    }
}

#[cfg(test)]
mod tests;
