//! Events of a Windows console control handler.

use std::io;

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
};

#[derive(Debug)]
pub(crate) struct Listeners {
    shutdown: CtrlShutdown,
    close: CtrlClose,
    interrupt: CtrlBreak,
    control_c: CtrlC,
}

impl Listeners {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { shutdown: ctrl_shutdown()?, close: ctrl_close()?, interrupt: ctrl_break()?, control_c: ctrl_c()? })
    }

    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.shutdown.recv() => "CTRL_SHUTDOWN",
            _ = self.close.recv() => "CTRL_CLOSE",
            _ = self.interrupt.recv() => "CTRL_BREAK",
            _ = self.control_c.recv() => "CTRL_C",
        }
    }
}
