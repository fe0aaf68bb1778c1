//! The driver of Windows nodes with a machine in memory, for tests of the whole program: `--host=fake:FILE` names its description. The
//! product has no such flag. A test changes and asks the machine over loopback, a line a request (`control`); the port stands in
//! `FILE.port`.

use std::process::ExitCode;

#[cfg(windows)]
#[path = "on_a_fake/control.rs"]
mod control;

#[cfg(windows)]
const FLAG: &str = "--host=fake:";

#[cfg(windows)]
fn file_of(argument: &std::ffi::OsString) -> Option<String> {
    Some(argument.to_str()?.strip_prefix(FLAG)?.to_owned())
}

#[cfg(windows)]
fn make() -> Result<std::sync::Arc<dyn winstorage::host::Host>, String> {
    let file =
        std::env::args_os().find_map(|argument| file_of(&argument)).ok_or_else(|| format!("{FLAG}FILE is missing"))?;
    let text = std::fs::read_to_string(&file).map_err(|error| format!("read {file}: {error}"))?;
    let host = winstorage::fake::FakeHost::from_json(&text)?;
    control::listen(&host, &format!("{file}.port")).map_err(|error| format!("listen to the test: {error}"))?;
    Ok(std::sync::Arc::new(host))
}

#[cfg(windows)]
fn main() -> ExitCode {
    let arguments = std::env::args_os().filter(|argument| file_of(argument).is_none());
    ebs_csi_driver::main(arguments, ebs_csi_driver::System::made_by(make))
}

/// Elsewhere the driver has a machine of its own kind.
#[cfg(not(windows))]
fn main() -> ExitCode {
    ExitCode::FAILURE
}
