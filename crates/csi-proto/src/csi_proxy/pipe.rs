//! Opens Windows named pipes as a client.

use std::io;

use tokio::net::windows::named_pipe::{ClientOptions, NamedPipeClient};

use crate::csi_proxy::client::Dial;

/// Opens the named pipes of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Pipes(());

/// Returns the opener for this machine's named pipes.
pub const fn pipes() -> Pipes {
    Pipes(())
}

impl Dial for Pipes {
    type Stream = NamedPipeClient;

    async fn dial(&self, pipe: &str) -> io::Result<NamedPipeClient> {
        ClientOptions::new().open(pipe)
    }
}
