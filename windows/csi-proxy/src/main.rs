//! The csi-proxy program. The library contains its code.

use std::process::ExitCode;
use std::sync::Arc;

use csi_proxy::MakeHost;
use winstorage::host::Host;

struct ThisMachine;

impl MakeHost for ThisMachine {
    #[cfg(windows)]
    fn make() -> Result<Arc<dyn Host>, String> {
        Ok(Arc::new(winstorage::real::windows_host(encrypts())))
    }

    #[cfg(not(windows))]
    fn make() -> Result<Arc<dyn Host>, String> {
        Err("csi-proxy requires Windows".to_owned())
    }
}

/// Returns whether COM uses packet privacy. As in the Go proxy, the environment variable `WMI_COM_SECURITY` can disable
/// it.
#[cfg(windows)]
fn encrypts() -> bool {
    let said = std::env::var("WMI_COM_SECURITY").unwrap_or_default().to_ascii_lowercase();
    !["0", "false", "no", "off"].contains(&said.as_str())
}

fn main() -> ExitCode {
    csi_proxy::main::<ThisMachine>()
}
