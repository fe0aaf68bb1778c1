//! The configuration of a simulator.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::config::{AccessKey, EngineConfig};

/// The settings of a [`super::Server`]. The command line fills the same fields.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The simulated EC2. Its state directory also has the ledger.
    pub engine: EngineConfig,
    /// Address of the EC2 API; port 0 selects a free one. Loopback only.
    pub ec2_listen: SocketAddr,
    /// Address of the instance metadata service; port 0 selects a free one. Loopback only.
    pub imds_listen: SocketAddr,
    /// Address of the control API; port 0 selects a free one. Loopback only.
    pub control_listen: SocketAddr,
    /// If set, the simulator accepts only requests that are signed with this key. Otherwise it accepts any credentials.
    pub access_key: Option<AccessKey>,
    /// Whether the service also answers metadata requests without a session token.
    pub imds_v1: bool,
}

impl ServerConfig {
    /// Returns the defaults of [`EngineConfig`], with free ports on 127.0.0.1 and any credentials.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            engine: EngineConfig { state_dir: Some(state_dir.into()), ..EngineConfig::default() },
            ec2_listen: free,
            imds_listen: free,
            control_listen: free,
            access_key: None,
            imds_v1: false,
        }
    }
}
