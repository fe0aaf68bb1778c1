//! Prepares the state directory when the driver starts. The driver starts even if the directory is unusable. Only
//! operations that need it fail later, such as a format, which needs its record.
//!
//! Decision: `docs/decisions/0023-need-the-state-directory-only-to-format.md`.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::config::MounterConfig;
use crate::format::record::collect_stale;
use crate::format::write_mke2fs_conf;
use crate::os;
use crate::register::Register;
use crate::tools::memory::write_e2fsck_conf;

/// How long the driver's start waits for the directory. Data that the thread reads later is still used.
const WITHIN: Duration = Duration::from_secs(20);

/// Runs on its own thread, because the directory may hang.
pub(crate) fn prepare(config: &Arc<MounterConfig>, register: &Arc<Register>) {
    let (config, register) = (Arc::clone(config), Arc::clone(register));
    let is_late = Arc::new(AtomicBool::new(false));
    let (prepared, ended) = sync_channel::<()>(1);
    let (late, directory) = (Arc::clone(&is_late), config.state_dir.clone());
    let work = move || {
        // Drop this at the end, even after a panic: the start waits for it.
        let _prepared = prepared;
        make(&config);
        register.load(&config);
        // After the start has stopped waiting, files here may belong to the running driver.
        if !late.load(Ordering::SeqCst) {
            clean(&config);
        }
    };
    let started = std::thread::Builder::new().name("state-directory".to_owned()).spawn(work);
    if let Err(error) = started {
        tracing::warn!(
            path = %directory.display(), %error,
            "failed to start the check of the state directory, starting without it"
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
