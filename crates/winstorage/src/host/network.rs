//! Storage behind the network: SMB shares and iSCSI targets.

use std::fmt;

use super::HostError;
use crate::types::{Iqn, PortalAddress, Secret};

/// The `__PATH` of a WMI object, by which its methods and associations are called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectPath(pub String);

/// `MSFT_SmbGlobalMapping.Status`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MappingStatus {
    /// 0
    Ok,
    /// 1 paused, 2 disconnected, 3 network error, 4 connecting, 5 reconnecting, 6 unavailable, or what is not known.
    Bad(u32),
}

/// A mapping that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Of its WMI object.
    pub object: ObjectPath,
    /// `RemotePath`
    pub root: String,
    /// Whether it works.
    pub status: MappingStatus,
}

/// A mapping to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMapping {
    /// `\\host\share`
    pub root: String,
    /// `user:password` in Windows' escaping; `None` for the machine's own credentials.
    pub credential: Option<Secret>,
    /// Encrypt the traffic.
    pub require_privacy: bool,
}

/// SMB shares that every session of the machine sees.
pub trait SmbHost: Send + Sync {
    /// The mapping of `root` (`\\host\share`), where there is one.
    ///
    /// # Errors
    /// The query failed.
    fn mapping(&self, root: &str) -> Result<Option<Mapping>, HostError>;
    /// Maps a share.
    ///
    /// # Errors
    /// The method failed.
    fn create_mapping(&self, mapping: &NewMapping) -> Result<(), HostError>;
    /// Ends a mapping, open files or not.
    ///
    /// # Errors
    /// The method failed.
    fn remove_mapping(&self, mapping: &Mapping) -> Result<(), HostError>;
}

/// A portal that the machine knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Portal {
    /// Of its WMI object.
    pub object: ObjectPath,
    /// Where it listens.
    pub address: PortalAddress,
}

/// An iSCSI target that a portal has told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Of its WMI object.
    pub object: ObjectPath,
    /// `NodeAddress`
    pub iqn: String,
    /// `IsConnected`
    pub is_connected: bool,
}

/// A session with a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Of its WMI object.
    pub object: ObjectPath,
    /// `SessionIdentifier`
    pub identifier: String,
    /// `IsPersistent`: made again after a restart.
    pub is_persistent: bool,
}

/// How a target is logged in to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    /// `NONE`
    None,
    /// `ONEWAYCHAP`
    OneWayChap,
    /// `MUTUALCHAP`
    MutualChap,
}

/// A login to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetLogin {
    /// Where the target listens.
    pub portal: PortalAddress,
    /// Its name.
    pub iqn: Iqn,
    /// How.
    pub authentication: Authentication,
    /// `None` where the client gave none: an empty one would be sent as such.
    pub user: Option<String>,
    /// `None` where the client gave none.
    pub secret: Option<Secret>,
}

/// iSCSI.
pub trait IscsiHost: Send + Sync {
    /// All portals that the machine knows.
    ///
    /// # Errors
    /// The query failed, or names what is no portal.
    fn portals(&self) -> Result<Vec<Portal>, HostError>;
    /// The portal at this address, where the machine knows it.
    ///
    /// # Errors
    /// The query failed.
    fn portal(&self, address: &PortalAddress) -> Result<Option<Portal>, HostError>;
    /// Tells the machine of a portal.
    ///
    /// # Errors
    /// The method failed.
    fn add_portal(&self, address: &PortalAddress) -> Result<(), HostError>;
    /// Makes the machine forget a portal.
    ///
    /// # Errors
    /// The method failed.
    fn remove_portal(&self, portal: &Portal) -> Result<(), HostError>;
    /// The targets that a portal offers.
    ///
    /// # Errors
    /// The query failed.
    fn targets(&self, portal: &Portal) -> Result<Vec<Target>, HostError>;
    /// The sessions with a target.
    ///
    /// # Errors
    /// The query failed.
    fn sessions(&self, target: &Target) -> Result<Vec<Session>, HostError>;
    /// The numbers of the disks that a target's connections bring.
    ///
    /// # Errors
    /// A query failed.
    fn target_disks(&self, target: &Target) -> Result<Vec<u32>, HostError>;
    /// Logs in.
    ///
    /// # Errors
    /// The method failed.
    fn connect(&self, login: &TargetLogin) -> Result<(), HostError>;
    /// Ends a session.
    ///
    /// # Errors
    /// The method failed.
    fn disconnect(&self, target: &Target, session: &Session) -> Result<(), HostError>;
    /// Makes a session end with the next restart.
    ///
    /// # Errors
    /// The method failed.
    fn unregister(&self, session: &Session) -> Result<(), HostError>;
    /// Sets the secret by which targets prove themselves, for the whole machine.
    ///
    /// # Errors
    /// The method failed.
    fn set_chap_secret(&self, secret: &Secret) -> Result<(), HostError>;
}

impl Authentication {
    /// As the WMI method wants it.
    #[must_use]
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
