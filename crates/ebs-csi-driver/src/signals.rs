//! What asks the process to end (`windows.md` R-7 names those of Windows).

use anyhow::Context;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
};

/// The process's signals, listened to from the moment this exists.
#[cfg(unix)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

#[cfg(unix)]
impl Signals {
    /// Must be called in a runtime.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Ends when the next SIGTERM or SIGINT comes; gives its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// What the console and the end of a container send, listened to from the moment this exists. Windows ends the process by itself some
/// seconds after the first two, as the registry says for containers: nothing here can make that longer.
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
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let all = || -> std::io::Result<Self> {
            let (shutdown, close) = (ctrl_shutdown()?, ctrl_close()?);
            Ok(Self { shutdown, close, interrupt: ctrl_break()?, control_c: ctrl_c()? })
        };
        all().context("cannot listen for signals")
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
