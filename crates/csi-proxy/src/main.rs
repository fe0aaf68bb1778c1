//! csi-proxy: see the library.

use std::process::ExitCode;
use std::sync::Arc;

use csi_proxy::MakeHost;
use winstorage::host::Host;

/// Windows itself.
struct ThisMachine;

impl MakeHost for ThisMachine {
    #[cfg(windows)]
    fn make() -> Result<Arc<dyn Host>, String> {
        let host = winstorage::real::WindowsHost::new().map_err(|error| error.to_string())?;
        Ok(Arc::new(host))
    }

    #[cfg(not(windows))]
    fn make() -> Result<Arc<dyn Host>, String> {
        Err("this machine does not run Windows".to_owned())
    }
}

fn main() -> ExitCode {
    csi_proxy::main::<ThisMachine>()
}
