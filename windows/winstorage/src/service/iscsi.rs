//! Operations on iSCSI targets.

use crate::host::{Authentication, Target, TargetLogin};
use crate::types::{Iqn, PortalAddress, Secret};
use crate::{Storage, StorageError};

#[derive(Debug, Clone)]
pub struct Login {
    /// 0: no authentication, 1: one-way CHAP, 2: mutual CHAP.
    pub auth_type: i32,
    pub user: String,
    pub secret: Secret,
}

/// Maximum length of a secret in bytes. A secret of fewer than twelve bytes requires IPsec, which this program cannot
/// detect.
const LONGEST_SECRET: usize = 16;

impl Storage {
    /// Registers a portal on the machine. Succeeds if the portal is already registered.
    pub fn add_target_portal(&self, address: &str, port: u32) -> Result<(), StorageError> {
        let portal = PortalAddress::parse(address, port)?;
        if self.host.portal(&portal)?.is_some() { Ok(()) } else { Ok(self.host.add_portal(&portal)?) }
    }

    /// Unregisters a portal. Succeeds if the portal is not registered.
    pub fn remove_target_portal(&self, address: &str, port: u32) -> Result<(), StorageError> {
        let portal = PortalAddress::parse(address, port)?;
        match self.host.portal(&portal)? {
            Some(portal) => Ok(self.host.remove_portal(&portal)?),
            None => Ok(()),
        }
    }

    pub fn list_target_portals(&self) -> Result<Vec<PortalAddress>, StorageError> {
        Ok(self.host.portals()?.into_iter().map(|portal| portal.address).collect())
    }

    pub fn discover_target_portal(&self, address: &str, port: u32) -> Result<Vec<String>, StorageError> {
        let portal = PortalAddress::parse(address, port)?;
        Ok(self.targets(&portal)?.into_iter().map(|target| target.iqn).collect())
    }

    /// Logs in to a target. Succeeds if the target is already connected.
    pub fn connect_target(&self, address: &str, port: u32, iqn: &str, login: &Login) -> Result<(), StorageError> {
        let authentication = authentication(login.auth_type)?;
        let (portal, iqn) = (PortalAddress::parse(address, port)?, Iqn::parse(iqn)?);
        if self.target(&portal, &iqn)?.is_connected {
            return Ok(());
        }
        let user = (!login.user.is_empty()).then(|| login.user.clone());
        let secret = (!login.secret.is_empty()).then(|| login.secret.clone());
        Ok(self.host.connect(&TargetLogin { portal, iqn, authentication, user, secret })?)
    }

    /// Logs out of a target permanently. Succeeds if the target is not connected or has no session.
    pub fn disconnect_target(&self, address: &str, port: u32, iqn: &str) -> Result<(), StorageError> {
        let (portal, iqn) = (PortalAddress::parse(address, port)?, Iqn::parse(iqn)?);
        let target = self.target(&portal, &iqn)?;
        if !target.is_connected {
            return Ok(());
        }
        for session in self.host.sessions(&target)? {
            if session.is_persistent {
                self.host.unregister(&session)?;
            }
            self.host.disconnect(&target, &session)?;
        }
        Ok(())
    }

    /// Returns the numbers of a target's disks in decimal. The list is empty if the target is not connected.
    pub fn target_disks(&self, address: &str, port: u32, iqn: &str) -> Result<Vec<String>, StorageError> {
        let (portal, iqn) = (PortalAddress::parse(address, port)?, Iqn::parse(iqn)?);
        let target = self.target(&portal, &iqn)?;
        if !target.is_connected {
            return Ok(Vec::new());
        }
        Ok(self.host.target_disks(&target)?.iter().map(ToString::to_string).collect())
    }

    /// Sets the machine-wide secret with which targets authenticate themselves.
    pub fn set_mutual_chap_secret(&self, secret: &Secret) -> Result<(), StorageError> {
        let length = secret.expose().len();
        if !(1..=LONGEST_SECRET).contains(&length) {
            return Err(StorageError::ChapSecret(length));
        }
        Ok(self.host.set_chap_secret(secret)?)
    }

    fn targets(&self, address: &PortalAddress) -> Result<Vec<Target>, StorageError> {
        let portal = self.host.portal(address)?.ok_or_else(|| StorageError::PortalNotFound(address.to_string()))?;
        Ok(self.host.targets(&portal)?)
    }

    fn target(&self, portal: &PortalAddress, iqn: &Iqn) -> Result<Target, StorageError> {
        let mut targets = self.targets(portal)?.into_iter();
        let found = targets.find(|target| target.iqn.eq_ignore_ascii_case(iqn.as_str()));
        found.ok_or_else(|| StorageError::TargetNotFound { iqn: iqn.to_string(), portal: portal.to_string() })
    }
}

fn authentication(number: i32) -> Result<Authentication, StorageError> {
    match number {
        0 => Ok(Authentication::None),
        1 => Ok(Authentication::OneWayChap),
        2 => Ok(Authentication::MutualChap),
        other => Err(StorageError::Authentication(other)),
    }
}
