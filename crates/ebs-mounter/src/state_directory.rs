//! Creates a mounter and prepares its state directory. If the directory is unusable, only operations that need it fail.
//! Decision: `docs/dev/decisions/0023-need-the-state-directory-only-to-format.md`.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::config::MounterConfig;
use crate::device::{self, NoSysfs, volumes_here};
use crate::format::record::collect_stale;
use crate::format::write_mke2fs_conf;
use crate::mounter::Mounter;
use crate::os;
use crate::register::Register;
use crate::tools::Tools;
use crate::tools::memory::write_e2fsck_conf;

/// How long the driver's startup waits for the thread that reads the directory. What it reads later is still used.
const WITHIN: Duration = Duration::from_secs(20);

/// Why a mounter cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum MounterError {
    #[error("missing programs: {}; install e2fsprogs, xfsprogs and util-linux", .0.join(", "))]
    MissingTools(Vec<&'static str>),
    #[error(transparent)]
    NoSysfs(#[from] NoSysfs),
}

impl Mounter {
    /// Checks that the tools are installed and that sysfs lists block devices. Reads the register in the state
    /// directory, and blocks for at most 20 s while it does so. Problems with the directory are only logged.
    pub fn new(config: MounterConfig) -> Result<Self, MounterError> {
        device::listed(&config.sys)?;
        let tools = Tools::find(config.sys.join("fs/cgroup"));
        let missing = tools.missing();
        if !missing.is_empty() {
            return Err(MounterError::MissingTools(missing));
        }
        if let Some(directory) = &config.simulated_devices {
            let directory = directory.display();
            tracing::warn!(%directory, "treating loop devices on files in this directory as EBS volumes");
        }
        let register = Arc::new(Register::new(&config));
        let config = Arc::new(config);
        prepare(&config, &register);
        Ok(Self {
            config,
            tools: Arc::new(tools),
            register,
            failed_flushes: Arc::default(),
            ignored_records: Arc::default(),
            has_warned_not_shared: Arc::default(),
        })
    }
}

/// Runs on its own thread, because the directory may hang.
fn prepare(config: &Arc<MounterConfig>, register: &Arc<Register>) {
    let (config, register) = (Arc::clone(config), Arc::clone(register));
    let is_late = Arc::new(AtomicBool::new(false));
    let (prepared, ended) = sync_channel::<()>(1);
    let (late, directory) = (Arc::clone(&is_late), config.state_dir.clone());
    let work = move || {
        // Startup waits until this sender is dropped, at the end of the work or by a panic.
        let _prepared = prepared;
        make(&config);
        register.load(&config, || volumes_here(&config));
        // Once startup no longer waits for this thread, files in the state directory may belong to the running driver.
        if !late.load(Ordering::SeqCst) {
            clean(&config);
        }
    };
    let started = std::thread::Builder::new().name("state-directory".to_owned()).spawn(work);
    if let Err(error) = started {
        tracing::warn!(
            path = %directory.display(), %error,
            "failed to start the check of the state directory, starting without the check"
        );
    } else if ended.recv_timeout(WITHIN) == Err(RecvTimeoutError::Timeout) {
        is_late.store(true, Ordering::SeqCst);
        tracing::warn!(
            path = %directory.display(),
            "the state directory did not respond within {} s, starting without it",
            WITHIN.as_secs()
        );
    }
}

fn make(config: &MounterConfig) {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o755).create(&config.state_dir);
    let usable =
        made.and_then(|()| try_to_write(&config.state_dir)).and_then(|()| write_mke2fs_conf(&config.state_dir));
    if let Err(error) = usable {
        tracing::warn!(
            path = %config.state_dir.display(), %error,
            "the state directory is not writable: the driver formats no volume until it is"
        );
        return;
    }
    if let Err(error) = write_e2fsck_conf(&config.state_dir) {
        tracing::warn!(
            %error,
            "failed to write e2fsck.conf to the state directory: file system checks may need more memory"
        );
    }
}

fn try_to_write(directory: &Path) -> io::Result<()> {
    let path = directory.join(format!(".probe-{}", std::process::id()));
    std::fs::File::create(&path)?;
    std::fs::remove_file(&path)
}

fn clean(config: &MounterConfig) {
    if let Err(error) = os::clear_temporary_binds(&config.temporary_binds()) {
        tracing::warn!(%error, "failed to remove the remains of an interrupted bind mount");
    }
    if let Err(error) = collect_stale(config) {
        tracing::warn!(%error, "failed to remove stale format records");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounter_starts_without_a_state_directory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mounter = Mounter::new(MounterConfig::new(file.path().join("below"))).unwrap();
        assert!(mounter.registered().is_empty() && mounter.own_volumes_at_boot() == 0);
    }
}
