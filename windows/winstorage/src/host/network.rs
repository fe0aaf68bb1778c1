//! Network storage: SMB shares and iSCSI targets.

use std::fmt;

use super::HostError;
use crate::types::{Iqn, PortalAddress, Secret};

/// The `__PATH` of a WMI object. It identifies the object in method calls and associations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectPath(pub String);

/// `MSFT_SmbGlobalMapping.Status`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MappingStatus {
    Ok,
    /// A status other than "connected": 1 paused, 2 disconnected, 3 network error, 4 connecting, 5 reconnecting, 6
    /// unavailable, or an unknown number.
    Bad(u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub object: ObjectPath,
    pub root: String,
    pub status: MappingStatus,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMapping {
    /// `\\host\share`
    pub root: String,
    /// `user:password`, escaped as Windows expects it. `None` uses the machine's own credentials.
    pub credential: Option<Secret>,
    pub require_privacy: bool,
}

/// SMB shares that all sessions of the machine can use.
pub trait SmbHost: Send + Sync {
    /// Returns the mapping of `root` (`\\host\share`), if it exists.
    fn mapping(&self, root: &str) -> Result<Option<Mapping>, HostError>;
    fn create_mapping(&self, mapping: &NewMapping) -> Result<(), HostError>;
    /// Removes a mapping, even if files on it are open.
    fn remove_mapping(&self, mapping: &Mapping) -> Result<(), HostError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Portal {
    pub object: ObjectPath,
    pub address: PortalAddress,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub object: ObjectPath,
    pub iqn: String,
    pub is_connected: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub object: ObjectPath,
    pub identifier: String,
    /// `IsPersistent`: Windows restores the session after a restart.
    pub is_persistent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    None,
    OneWayChap,
    MutualChap,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetLogin {
    pub portal: PortalAddress,
    pub iqn: Iqn,
    pub authentication: Authentication,
    /// The user, or `None` if the client sent no user. An empty text would reach Windows as a name.
    pub user: Option<String>,
    pub secret: Option<Secret>,
}

pub trait IscsiHost: Send + Sync {
    fn portals(&self) -> Result<Vec<Portal>, HostError>;
    fn portal(&self, address: &PortalAddress) -> Result<Option<Portal>, HostError>;
    fn add_portal(&self, address: &PortalAddress) -> Result<(), HostError>;
    fn remove_portal(&self, portal: &Portal) -> Result<(), HostError>;
    fn targets(&self, portal: &Portal) -> Result<Vec<Target>, HostError>;
    fn sessions(&self, target: &Target) -> Result<Vec<Session>, HostError>;
    fn target_disks(&self, target: &Target) -> Result<Vec<u32>, HostError>;
    fn connect(&self, login: &TargetLogin) -> Result<(), HostError>;
    fn disconnect(&self, target: &Target, session: &Session) -> Result<(), HostError>;
    /// Makes a session non-persistent, so that it ends with the next restart.
    fn unregister(&self, session: &Session) -> Result<(), HostError>;
    /// Sets the machine-wide secret with which targets authenticate themselves.
    fn set_chap_secret(&self, secret: &Secret) -> Result<(), HostError>;
}

impl Authentication {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::OneWayChap => "ONEWAYCHAP",
            Self::MutualChap => "MUTUALCHAP",
        }
    }
}

impl fmt::Display for ObjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
