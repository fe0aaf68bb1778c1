//! What asks the process to end (`windows.md` R-7).

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
};

/// The requests to end, listened to from the moment this exists.
#[cfg(unix)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

#[cfg(unix)]
impl Signals {
    /// Must be called in a runtime.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Ends with the next one; gives its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// The requests to end, listened to from the moment this exists.
#[cfg(windows)]
pub(crate) struct Signals {
    shutdown: CtrlShutdown,
    close: CtrlClose,
    interrupt: CtrlBreak,
    control_c: CtrlC,
}

#[cfg(windows)]
impl Signals {
    /// Must be called in a runtime.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { shutdown: ctrl_shutdown()?, close: ctrl_close()?, interrupt: ctrl_break()?, control_c: ctrl_c()? })
    }

    /// Ends with the next one; gives its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.shutdown.recv() => "CTRL_SHUTDOWN",
            _ = self.close.recv() => "CTRL_CLOSE",
            _ = self.interrupt.recv() => "CTRL_BREAK",
            _ = self.control_c.recv() => "CTRL_C",
        }
    }
}
