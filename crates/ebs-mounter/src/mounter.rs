//! The way into the crate: where things are, and the operations of the other modules on one value.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::device::{NoSysfs, listed};
use crate::format::write_mke2fs_conf;
use crate::format_record::collect_stale;
use crate::os;
use crate::register::Register;
use crate::tool::Tools;
use crate::tool_memory::{end_tools_alone, write_e2fsck_conf};
use crate::xfs_features::Feature;

/// Where this node keeps things and how long it waits.
#[derive(Debug, Clone)]
pub struct MounterConfig {
    /// Directory for records of formats in progress and for our mke2fs.conf; it must survive a restart of the driver.
    /// The directory of the CSI socket.
    pub state_dir: PathBuf,
    /// `EBS_SIM_DEVICES_DIR`: loop devices whose backing file lies below it stand for EBS volumes. `None` in production.
    pub simulated_devices: Option<PathBuf>,
    /// True on Xen instance types: their disks have no serial number and the name EC2 reports is the identity.
    pub xen: bool,
    /// How long a device that EC2 reports attached may take to appear here.
    pub late_device: Duration,
    /// How long the kernel may take to show the size of a disk that EC2 reports.
    pub late_size: Duration,
    /// The directory of devices: `/dev` outside of tests.
    pub dev: PathBuf,
    /// Where sysfs is: `/sys` outside of tests.
    pub sys: PathBuf,
    /// Where the kernel names its run, another one after each boot: `/proc/sys/kernel/random/boot_id` outside of tests.
    pub boot_id: PathBuf,
}

impl MounterConfig {
    /// A configuration for real hardware.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            state_dir: state_dir.into(),
            simulated_devices: None,
            xen: false,
            late_device: Duration::from_secs(10),
            late_size: Duration::from_secs(20),
            dev: PathBuf::from("/dev"),
            sys: PathBuf::from("/sys"),
            boot_id: PathBuf::from("/proc/sys/kernel/random/boot_id"),
        }
    }

    /// Where binds are made that this kernel cannot make at once. Nobody else looks there.
    pub(crate) fn workshop(&self) -> PathBuf {
        self.state_dir.join("binding")
    }
}

/// Why a mounter cannot work at all.
#[derive(Debug, thiserror::Error)]
pub enum MounterError {
    /// The state directory cannot be used.
    #[error("the state directory {} cannot be used", path.display())]
    StateDirectory { path: PathBuf, source: io::Error },
    /// Programs that are needed and not installed.
    #[error("missing programs: {}; install e2fsprogs, xfsprogs and util-linux", .0.join(", "))]
    MissingTools(Vec<&'static str>),
    /// Disks cannot be told apart here (`decisions.md` D-35).
    #[error(transparent)]
    NoSysfs(#[from] NoSysfs),
}

/// Disks and mounts of this node. Clones share everything.
#[derive(Debug, Clone)]
pub struct Mounter {
    pub(crate) config: Arc<MounterConfig>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) register: Arc<Register>,
    /// What the installed mkfs.xfs knows, once it was asked.
    pub(crate) xfs_features: Arc<OnceCell<Vec<Feature>>>,
    /// It was said that mounts made here are not seen elsewhere.
    pub(crate) said_not_shared: Arc<AtomicBool>,
}

impl Mounter {
    /// Checks that the state directory is there, or makes it, that the tools are installed and that sysfs lists block
    /// devices. Simulated disks are announced in the log.
    ///
    /// # Errors
    /// [`MounterError`]: what is missing.
    pub fn new(config: MounterConfig) -> Result<Self, MounterError> {
        listed(&config.sys)?;
        let refused = |source| MounterError::StateDirectory { path: config.state_dir.clone(), source };
        usable_directory(&config.state_dir).map_err(&refused)?;
        let tools = Tools::find();
        let missing = tools.missing();
        if !missing.is_empty() {
            return Err(MounterError::MissingTools(missing));
        }
        if let Some(directory) = &config.simulated_devices {
            let directory = directory.display();
            tracing::warn!(%directory, "loop devices over files below this directory are taken for EBS volumes");
        }
        write_mke2fs_conf(&config.state_dir).map_err(&refused)?;
        provide_memory(&config);
        let register = Register::open(&config).map_err(refused)?;
        if let Err(error) = os::clear_workshop(&config.workshop()) {
            tracing::warn!(%error, "what an interrupted bind has left could not be taken away");
        }
        if let Err(error) = collect_stale(&config) {
            tracing::warn!(%error, "old records of formats could not be looked through");
        }
        Ok(Self {
            config: Arc::new(config),
            tools: Arc::new(tools),
            register: Arc::new(register),
            xfs_features: Arc::default(),
            said_not_shared: Arc::default(),
        })
    }
}

/// Lets tools need little memory and end alone when they run short of it. The driver works without either.
fn provide_memory(config: &MounterConfig) {
    if let Err(error) = write_e2fsck_conf(&config.state_dir) {
        tracing::warn!(%error, "e2fsck.conf cannot be written to the state directory: checks of file systems may need more memory");
    }
    match end_tools_alone(&config.sys.join("fs/cgroup")) {
        Ok(true) => {
            tracing::info!("a tool that runs short of memory ends alone: the container's memory.oom.group is 0 now")
        }
        Ok(false) => {}
        Err(error) => {
            tracing::warn!(%error, "a tool that runs short of memory ends the driver too: the container's memory.oom.group cannot be set to 0");
        }
    }
}

fn usable_directory(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    // Records are written here before a disk is formatted: better to learn now that this is impossible.
    tempfile_in(path)
}

/// Creates and removes a file.
fn tempfile_in(directory: &Path) -> io::Result<()> {
    let path = directory.join(format!(".probe-{}", std::process::id()));
    std::fs::File::create(&path)?;
    std::fs::remove_file(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_directory_that_cannot_be_written_is_refused_by_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Mounter::new(MounterConfig::new(file.path().join("below"))).unwrap_err();
        assert!(error.to_string().contains(file.path().to_str().unwrap()), "{error}");
    }
}
