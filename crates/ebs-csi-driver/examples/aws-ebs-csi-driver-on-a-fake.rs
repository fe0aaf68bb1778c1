//! The driver for Windows nodes on a simulated in-memory machine, for tests of the whole program. The product does not
//! have these flags.
//!
//! - `--host=fake:FILE`: creates a machine that FILE describes. Tests change and query it over loopback at the port in
//!   `FILE.port`.
//! - `--host=of:FILE`: connects to the machine behind a csi-proxy, with the view of a process in a container. FILE
//!   contains the port.

use std::process::ExitCode;

#[cfg(windows)]
mod on_windows {
    use std::ffi::OsString;
    use std::path::PathBuf;
    use std::sync::Arc;

    use winstorage::fake::control;
    use winstorage::host::{Host, SpaceHost};

    const FLAG: &str = "--host=";

    pub(super) fn is_ours(argument: &OsString) -> bool {
        argument.to_str().is_some_and(|text| text.starts_with(FLAG))
    }

    fn file(kind: &str) -> Result<PathBuf, String> {
        let flag = format!("{FLAG}{kind}:");
        let given = std::env::args_os().find_map(|argument| Some(argument.to_str()?.strip_prefix(&flag)?.into()));
        given.ok_or_else(|| format!("{flag}FILE is missing"))
    }

    pub(super) fn host() -> Result<Arc<dyn Host>, String> {
        Ok(Arc::new(control::described(&file("fake")?)?))
    }

    pub(super) fn own() -> Result<Arc<dyn SpaceHost>, String> {
        let remote = control::Remote::connect(&file("of")?);
        Ok(Arc::new(remote.map_err(|error| format!("connect to the machine of csi-proxy: {error}"))?))
    }
}

#[cfg(windows)]
fn main() -> ExitCode {
    let arguments = std::env::args_os().filter(|argument| !on_windows::is_ours(argument));
    ebs_csi_driver::main(arguments, ebs_csi_driver::System::made_by(on_windows::host, on_windows::own))
}

/// Only the Windows driver can run on a simulated machine.
#[cfg(not(windows))]
fn main() -> ExitCode {
    ExitCode::FAILURE
}
