//! Receives requests to stop the process: signals on Unix, console and shutdown events on Windows.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
};

/// Receives requests to stop. While this value exists, such a request does not end the process by itself.
///
/// On Unix this effect lasts until the process ends. Windows still ends the process some seconds after its console
/// closes, or the machine or container shuts down.
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    terminate: Signal,
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(windows)]
    shutdown: CtrlShutdown,
    #[cfg(windows)]
    close: CtrlClose,
    #[cfg(windows)]
    interrupt: CtrlBreak,
    #[cfg(windows)]
    control_c: CtrlC,
}

impl Signals {
    /// Starts to listen. Must be called in a runtime.
    pub fn listen() -> io::Result<Self> {
        #[cfg(unix)]
        let signals = Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? };
        #[cfg(windows)]
        let signals =
            Self { shutdown: ctrl_shutdown()?, close: ctrl_close()?, interrupt: ctrl_break()?, control_c: ctrl_c()? };
        Ok(signals)
    }

    /// Waits for the next request and returns its name. Equal requests that arrive before this call count once.
    pub async fn next(&mut self) -> &'static str {
        #[cfg(unix)]
        let name = tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        #[cfg(windows)]
        let name = tokio::select! {
            _ = self.shutdown.recv() => "CTRL_SHUTDOWN",
            _ = self.close.recv() => "CTRL_CLOSE",
            _ = self.interrupt.recv() => "CTRL_BREAK",
            _ = self.control_c.recv() => "CTRL_C",
        };
        name
    }
}
