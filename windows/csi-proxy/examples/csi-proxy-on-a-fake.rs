//! csi-proxy with a fake machine, for tests of the whole program. `--host=fake:FILE` names the description of the
//! machine. Other processes control the machine over loopback, through the port in `FILE.port`. The product does not
//! have this flag.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use csi_proxy::MakeHost;
use winstorage::fake::control;
use winstorage::host::Host;

struct Fake;

const FLAG: &str = "--host=fake:";

fn is_ours(argument: &OsString) -> bool {
    argument.to_str().is_some_and(|text| text.starts_with(FLAG))
}

impl MakeHost for Fake {
    fn make() -> Result<Arc<dyn Host>, String> {
        let argument = std::env::args_os().find(is_ours).ok_or_else(|| format!("{FLAG}FILE is missing"))?;
        let file = argument.to_str().and_then(|text| text.strip_prefix(FLAG)).unwrap_or_default();
        Ok(Arc::new(control::described(Path::new(file))?))
    }

    fn arguments() -> Vec<OsString> {
        std::env::args_os().skip(1).filter(|argument| !is_ours(argument)).collect()
    }
}

fn main() -> ExitCode {
    csi_proxy::main::<Fake>()
}
