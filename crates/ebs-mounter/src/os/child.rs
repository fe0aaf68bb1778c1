//! Descriptors that a child process inherits.

use std::fs::File;
use std::sync::Arc;

use rustix::io::{FdFlags, fcntl_setfd};

/// Makes a child process inherit a descriptor. Every other child closes it.
pub(crate) fn inherit_descriptor(command: &mut tokio::process::Command, file: Arc<File>) {
    // SAFETY: between fork and exec the closure makes one system call, fcntl(2), which is async-signal-safe. It
    // allocates nothing and takes no lock: the descriptor stays open, since the closure owns it, and an error is a
    // plain number.
    unsafe {
        command.pre_exec(move || fcntl_setfd(&*file, FdFlags::empty()).map_err(std::io::Error::from));
    }
}
