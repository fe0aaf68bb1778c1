//! Runs mkfs. The arguments name each feature and equal the defaults of e2fsprogs 1.46.5 and xfsprogs 6.12, so that a
//! volume can move between nodes with different tools. Decision: `docs/dev/decisions/0019-name-every-mkfs-feature.md`.

pub(crate) mod record;
mod xfs_features;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use record::{FormatPermit, FormatRecord, RecordError, write_synced};
use tokio::time::Instant;
use xfs_features::Feature;

use crate::device::{Device, DeviceError};
use crate::disk::users;
use crate::format_options::{FormatOptions, SizeWord};
use crate::fs_type::FsType;
use crate::mounter::Mounter;
use crate::probe::{Contents, ProbeError, probe_again};
use crate::tools::{Call, Program, Running, ToolError};
use crate::{bounded, os};

const BASE_FEATURES: &str = "sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr";
const EXT4_FEATURES: &str = "extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize";
/// mke2fs reads its defaults from this file in the state directory, not from the file of the host.
const MKE2FS_CONF: &str = include_str!("../data/mke2fs.conf");
const MKE2FS_CONF_NAME: &str = "mke2fs.conf";

/// How long to repeat an mkfs that found the disk in use. This process itself may hold the disk for a moment: a child
/// that another thread starts shares our exclusive descriptor until its exec.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Writes our mke2fs.conf once, before any format starts, because formats run concurrently.
pub(crate) fn write_mke2fs_conf(state_dir: &Path) -> io::Result<()> {
    let path = state_dir.join(MKE2FS_CONF_NAME);
    if std::fs::read(&path).is_ok_and(|there| there == MKE2FS_CONF.as_bytes()) {
        return Ok(());
    }
    write_synced(&path, MKE2FS_CONF.as_bytes())
}

/// The file system to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatSpec {
    pub fs_type: FsType,
    /// The format options. This crate ignores options that do not apply to the type; the caller rejects them.
    pub options: FormatOptions,
}

impl FormatSpec {
    /// Returns the command line for this kernel release and these features of mkfs.xfs. Set `force` only to repeat an
    /// interrupted format.
    pub(crate) fn call(&self, device: &Path, kernel: (u32, u32), known: &[Feature], force: bool) -> Call {
        let args = if self.fs_type.is_ext() { self.ext_args(force) } else { self.xfs_args(kernel, known, force) };
        let program = if self.fs_type.is_ext() { Program::Mke2fs } else { Program::MkfsXfs };
        Call::new(program, args.into_iter().map(OsString::from).chain([device.as_os_str().to_owned()]))
    }

    fn ext_args(&self, force: bool) -> Vec<String> {
        let options = &self.options;
        let mut args: Vec<String> = ["-q", "-t", self.fs_type.as_str()].map(str::to_owned).into();
        let sizes = [
            ("-b", &options.block_size),
            ("-I", &options.inode_size),
            ("-i", &options.bytes_per_inode),
            ("-N", &options.number_of_inodes),
        ];
        for (flag, word) in sizes {
            args.extend(word.iter().flat_map(|word| [flag.to_owned(), word.as_str().to_owned()]));
        }
        // One list, because mke2fs uses only the last of several -O options.
        let mut features = vec!["none", BASE_FEATURES];
        features.extend((self.fs_type != FsType::Ext2).then_some("has_journal"));
        if self.fs_type == FsType::Ext4 {
            features.push(EXT4_FEATURES);
            features.extend(options.bigalloc.then_some("bigalloc"));
            features.extend(options.encryption.then_some("encrypt"));
            args.extend(options.cluster_size.iter().flat_map(|word| ["-C".to_owned(), word.as_str().to_owned()]));
        }
        args.extend(["-O".to_owned(), features.join(","), "-m0".to_owned()]);
        args.extend(force.then(|| "-F".to_owned()));
        args
    }

    fn xfs_args(&self, kernel: (u32, u32), known: &[Feature], force: bool) -> Vec<String> {
        let options = &self.options;
        let mut args = vec!["-q".to_owned()];
        args.extend(options.block_size.iter().flat_map(|word| ["-b".to_owned(), format!("size={}", word.as_str())]));
        let inode_size = options.inode_size.as_ref().map(SizeWord::as_str);
        args.extend(xfs_features::args(kernel, options.legacy_xfs, inode_size, known));
        args.extend(force.then(|| "-f".to_owned()));
        args
    }
}

/// Why no file system was made.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    #[error("the device changed before it was formatted")]
    Device(#[from] DeviceError),
    #[error("read the device again before formatting it")]
    Probe(#[from] ProbeError),
    #[error("{device} was blank and now holds {contents}; it was not formatted")]
    NoLongerBlank { device: String, contents: String },
    #[error(
        "{device} is in use: it is mounted in another mount namespace or a tool uses it, perhaps the mkfs of a killed \
         driver"
    )]
    Held { device: String },
    /// The record could not be written, so nothing was formatted.
    #[error("write the record that the driver needs before it formats a device")]
    Record(#[from] RecordError),
    #[error("prepare to format the device")]
    Prepare(#[source] io::Error),
    #[error("create the file system")]
    Mkfs(#[from] ToolError),
    #[error("flush the new file system to {device}")]
    Flush { device: String, source: io::Error },
}

impl Mounter {
    /// Makes a file system: writes and syncs the record, reads serial number and signatures again through the held
    /// descriptor, then starts mkfs. Removes the record after an error before mkfs or an error exit of mkfs. Keeps it
    /// if mkfs was killed and, after success, until [`Mounter::forget_format_if_known`]. Dropping the future never
    /// kills mkfs.
    pub async fn format(
        &self,
        device: &Device,
        spec: &FormatSpec,
        record: &FormatRecord,
        permit: FormatPermit,
    ) -> Result<(), FormatError> {
        let deadline = Instant::now() + BUSY_TIMEOUT;
        loop {
            match self.format_once(device, spec, record, &permit).await {
                Err(FormatError::Mkfs(error))
                    if error.reports_busy_device() && !permit.is_redo() && Instant::now() < deadline =>
                {
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn format_once(
        &self,
        device: &Device,
        spec: &FormatSpec,
        record: &FormatRecord,
        permit: &FormatPermit,
    ) -> Result<(), FormatError> {
        // First check that no process holds the device: the holder may be the mkfs to which the existing record
        // belongs.
        self.refuse_held(device).await?;
        let running = match self.start_format(device, spec, record, permit).await {
            Ok(running) => running,
            Err(error) => {
                // When repeating a format, keep the record as long as the contents may come from the interrupted mkfs.
                if !permit.is_redo() || matches!(error, FormatError::NoLongerBlank { .. }) {
                    let lost = || tracing::error!(volume = %record.volume, %error, "failed to remove the record of this format");
                    self.forget_format_if_known(&record.volume).await.inspect_err(|_| lost())?;
                }
                return Err(error);
            }
        };
        let ended = running.end().await?;
        if ended.code().is_some_and(|code| code != 0) {
            self.forget_format_if_known(&record.volume).await?;
        }
        ended.successful()?;
        let held = Arc::clone(device.file());
        let flushed = bounded::changing("flushing", device.path(), move || held.sync_all()).await;
        flushed.map_err(|source| FormatError::Flush { device: device.path().display().to_string(), source })
    }

    /// Does everything before mkfs and then starts it. If it returns an error, mkfs has not run.
    async fn start_format(
        &self,
        device: &Device,
        spec: &FormatSpec,
        record: &FormatRecord,
        permit: &FormatPermit,
    ) -> Result<Running, FormatError> {
        let place = Path::new("/proc/sys/kernel");
        let kernel = bounded::reading("reading the kernel release from", place, os::kernel_release).await;
        let kernel = kernel.map_err(FormatError::Prepare)?;
        let known = if spec.fs_type == FsType::Xfs { xfs_features::known(&self.tools).await? } else { &[] };
        if !permit.is_redo() {
            self.records().write(record).await?;
        }
        let conf = self.mke2fs_conf(spec.fs_type).await.map_err(FormatError::Prepare)?;
        self.check_before_format(device, record, permit).await?;
        self.refuse_held(device).await?;
        self.records().mark_started(record, permit).await?;
        let call = spec.call(device.path(), kernel, known, permit.is_redo()).env("MKE2FS_CONFIG", conf);
        tracing::info!(volume = %device.volume(), device = %device.path().display(), fs = %spec.fs_type, redo = permit.is_redo(), "formatting");
        Ok(self.tools.begin(&call, device.file())?)
    }

    async fn check_before_format(
        &self,
        device: &Device,
        record: &FormatRecord,
        permit: &FormatPermit,
    ) -> Result<(), FormatError> {
        self.reconfirm(device).await?;
        let contents = probe_again(device).await?;
        if matches!(contents, Contents::Blank(_)) || (permit.is_redo() && record.could_have_left(&contents)) {
            return Ok(());
        }
        let device = device.path().display().to_string();
        Err(FormatError::NoLongerBlank { device, contents: contents.to_string() })
    }

    /// Returns the path of our mke2fs.conf, after writing it: the state directory may have been unusable at startup.
    async fn mke2fs_conf(&self, fs_type: FsType) -> io::Result<PathBuf> {
        let conf = self.config.state_dir.join(MKE2FS_CONF_NAME);
        if fs_type.is_ext() {
            let directory = self.config.state_dir.clone();
            bounded::changing("writing", &conf, move || write_mke2fs_conf(&directory)).await?;
        }
        Ok(conf)
    }

    /// Fails if another process holds the device: a failed mkfs would remove the record, although the holder may still
    /// change the disk. An mkfs that a killed driver started holds the disk even before it opens the disk, because it
    /// inherits the driver's descriptor.
    async fn refuse_held(&self, device: &Device) -> Result<(), FormatError> {
        let (path, number, config) = (device.path().to_owned(), device.number(), Arc::clone(&self.config));
        let is_held = move || {
            let open = File::options().read(true).custom_flags(libc::O_EXCL | libc::O_NONBLOCK).open(path);
            match open {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(true),
                Err(error) => Err(error),
                Ok(_) => Ok(users::is_being_made(&config, number)),
            }
        };
        match bounded::reading("opening exclusively", device.path(), is_held).await {
            Ok(true) => Err(FormatError::Held { device: device.path().display().to_string() }),
            Ok(false) => Ok(()),
            Err(error) => Err(FormatError::Prepare(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: (u32, u32) = (6, 1);

    fn line(spec: &FormatSpec, kernel: (u32, u32), force: bool) -> String {
        let call = spec.call(Path::new("/dev/nvme1n1"), kernel, &[], force);
        let args = call.args.iter().map(|arg| arg.to_str().unwrap());
        std::iter::once(call.program.name()).chain(args).collect::<Vec<_>>().join(" ")
    }

    fn plain(fs_type: FsType) -> FormatSpec {
        FormatSpec { fs_type, options: FormatOptions::default() }
    }

    fn word(text: &str) -> Option<SizeWord> {
        SizeWord::parse(text).unwrap()
    }

    #[test]
    fn mkfs_is_called_with_explicit_features_and_without_force() {
        let lines = [FsType::Ext2, FsType::Ext3, FsType::Ext4, FsType::Xfs].map(|fs| line(&plain(fs), KERNEL, false));
        insta::assert_snapshot!(lines.join("\n"), @r"
        mke2fs -q -t ext2 -O none,sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr -m0 /dev/nvme1n1
        mke2fs -q -t ext3 -O none,sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr,has_journal -m0 /dev/nvme1n1
        mke2fs -q -t ext4 -O none,sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr,has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize -m0 /dev/nvme1n1
        mkfs.xfs -q -m crc=1,finobt=1,rmapbt=1,reflink=1,bigtime=1,inobtcount=1 -i sparse=1,nrext64=1 /dev/nvme1n1
        ");
    }

    #[test]
    fn mkfs_gets_each_size_as_argument_and_features_as_one_list() {
        let options = FormatOptions {
            block_size: word("4096"),
            inode_size: word("512"),
            bytes_per_inode: word("16384"),
            number_of_inodes: word("1000000"),
            bigalloc: true,
            cluster_size: word("65536"),
            encryption: true,
            legacy_xfs: false,
        };
        let ext4 = line(&FormatSpec { fs_type: FsType::Ext4, options: options.clone() }, KERNEL, false);
        let xfs = line(&FormatSpec { fs_type: FsType::Xfs, options }, KERNEL, false);
        insta::assert_snapshot!(format!("{ext4}\n{xfs}"), @r"
        mke2fs -q -t ext4 -b 4096 -I 512 -i 16384 -N 1000000 -C 65536 -O none,sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr,has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize,bigalloc,encrypt -m0 /dev/nvme1n1
        mkfs.xfs -q -b size=4096 -m crc=1,finobt=1,rmapbt=1,reflink=1,bigtime=1,inobtcount=1 -i size=512,sparse=1,nrext64=1 /dev/nvme1n1
        ");
    }

    #[test]
    fn xfs_feature_is_enabled_only_for_kernels_that_support_it() {
        for (kernel, bigtime, large_extents) in
            [((5, 9), 0, 0), ((5, 10), 1, 0), ((5, 18), 1, 0), ((5, 19), 1, 1), ((6, 0), 1, 1)]
        {
            let line = line(&plain(FsType::Xfs), kernel, false);
            assert!(line.contains(&format!("bigtime={bigtime},inobtcount={bigtime}")), "{kernel:?}: {line}");
            assert!(line.contains(&format!("nrext64={large_extents}")), "{kernel:?}: {line}");
        }
    }

    #[test]
    fn different_mke2fs_conf_is_replaced_and_ours_is_kept() {
        use std::os::unix::fs::MetadataExt;
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join(MKE2FS_CONF_NAME);
        let inode = || std::fs::metadata(&path).unwrap().ino();
        std::fs::write(&path, "[defaults]\n").unwrap();
        write_mke2fs_conf(state.path()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), MKE2FS_CONF);
        let ours = inode();
        write_mke2fs_conf(state.path()).unwrap();
        assert_eq!(inode(), ours, "it was written again");
    }

    #[test]
    fn size_word_rejects_all_but_letters_and_digits() {
        assert_eq!(SizeWord::parse(""), Ok(None));
        assert_eq!(word("64k").as_ref().map(SizeWord::as_str), Some("64k"));
        for bad in ["-F", "4096 ", "1,2", "½"] {
            assert!(SizeWord::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
