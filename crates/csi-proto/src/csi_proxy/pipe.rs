//! Windows' named pipes, for clients.

use std::io;

use tokio::net::windows::named_pipe::{ClientOptions, NamedPipeClient};

use crate::csi_proxy::client::Dial;

/// Opens Windows' named pipes.
#[derive(Debug, Clone, Copy)]
pub struct Pipes(());

/// Returns the pipes of this machine.
pub const fn pipes() -> Pipes {
    Pipes(())
}

impl Dial for Pipes {
    type Stream = NamedPipeClient;

    async fn dial(&self, pipe: &str) -> io::Result<NamedPipeClient> {
        ClientOptions::new().open(pipe)
    }
}
