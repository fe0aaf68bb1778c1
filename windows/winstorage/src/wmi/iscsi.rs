//! iSCSI.

use super::vocabulary::{self, Association, Call, Class};
use super::{On, Row, Value, Wmi, WmiHost};
use crate::host::{HostError, IscsiHost, NativeHost, Portal, Session, Target, TargetLogin};
use crate::types::{PortalAddress, Secret};

impl<W: Wmi, N: NativeHost> IscsiHost for WmiHost<W, N> {
    fn portals(&self) -> Result<Vec<Portal>, HostError> {
        self.all(Class::IscsiTargetPortal, vocabulary::PORTALS, &"all portals", &read_portal)
    }

    fn portal(&self, address: &PortalAddress) -> Result<Option<Portal>, HostError> {
        let wql = vocabulary::portal(address.address(), address.port());
        let read = |row: &Row| Ok(Portal { object: row.path()?, address: address.clone() });
        self.first(Class::IscsiTargetPortal, &wql, address, &read)
    }

    fn add_portal(&self, address: &PortalAddress) -> Result<(), HostError> {
        let arguments = [
            ("TargetPortalAddress", Value::Text(address.address().to_owned())),
            ("TargetPortalPortNumber", Value::U16(address.port())),
        ];
        self.call(On::Class, Call::NEW_PORTAL, &arguments, address).map(drop)
    }

    fn remove_portal(&self, portal: &Portal) -> Result<(), HostError> {
        let arguments = [
            ("TargetPortalPortNumber", Value::U16(portal.address.port())),
            ("TargetPortalAddress", Value::Text(portal.address.address().to_owned())),
        ];
        self.call(On::Object(&portal.object), Call::REMOVE_PORTAL, &arguments, &portal.address).map(drop)
    }

    fn targets(&self, portal: &Portal) -> Result<Vec<Target>, HostError> {
        let wql = vocabulary::associated(&portal.object, Association::TargetToPortal, Class::IscsiTarget);
        let read = |row: &Row| {
            let iqn = row.text("NodeAddress")?.to_owned();
            Ok(Target { object: row.path()?, iqn, is_connected: row.flag("IsConnected")? })
        };
        self.all(Class::IscsiTarget, &wql, &portal.address, &read)
    }

    fn sessions(&self, target: &Target) -> Result<Vec<Session>, HostError> {
        let wql = vocabulary::associated(&target.object, Association::TargetToSession, Class::IscsiSession);
        let read = |row: &Row| {
            let identifier = row.text("SessionIdentifier")?.to_owned();
            Ok(Session { object: row.path()?, identifier, is_persistent: row.flag("IsPersistent")? })
        };
        self.all(Class::IscsiSession, &wql, &target.iqn, &read)
    }

    fn target_disks(&self, target: &Target) -> Result<Vec<u32>, HostError> {
        let wql = vocabulary::associated(&target.object, Association::TargetToConnection, Class::IscsiConnection);
        let mut disks = Vec::new();
        for connection in self.all(Class::IscsiConnection, &wql, &target.iqn, &Row::path)? {
            let wql = vocabulary::associated(&connection, Association::ConnectionToDisk, Class::Disk);
            disks.extend(self.all(Class::Disk, &wql, &target.iqn, &|row| row.number32("Number"))?);
        }
        Ok(disks)
    }

    fn connect(&self, login: &TargetLogin) -> Result<(), HostError> {
        let mut arguments = vec![
            ("NodeAddress", Value::Text(login.iqn.to_string())),
            ("TargetPortalAddress", Value::Text(login.portal.address().to_owned())),
            ("TargetPortalPortNumber", Value::U16(login.portal.port())),
            ("AuthenticationType", Value::Text(login.authentication.as_str().to_owned())),
        ];
        if let Some(user) = &login.user {
            arguments.push(("ChapUsername", Value::Text(user.clone())));
        }
        if let Some(secret) = &login.secret {
            arguments.push(("ChapSecret", Value::Secret(secret.clone())));
        }
        self.call(On::Class, Call::CONNECT_TARGET, &arguments, &login.iqn).map(drop)
    }

    fn disconnect(&self, target: &Target, session: &Session) -> Result<(), HostError> {
        let arguments = [("SessionIdentifier", Value::Text(session.identifier.clone()))];
        self.call(On::Object(&target.object), Call::DISCONNECT_TARGET, &arguments, &target.iqn).map(drop)
    }

    fn unregister(&self, session: &Session) -> Result<(), HostError> {
        self.call(On::Object(&session.object), Call::UNREGISTER_SESSION, &[], &session.identifier).map(drop)
    }

    fn set_chap_secret(&self, secret: &Secret) -> Result<(), HostError> {
        let arguments = [("ChapSecret", Value::Secret(secret.clone()))];
        self.call(On::Class, Call::SET_CHAP_SECRET, &arguments, &"this machine").map(drop)
    }
}

fn read_portal(row: &Row) -> Result<Portal, String> {
    let port = row.number32("TargetPortalPortNumber")?;
    let address = PortalAddress::parse(row.text("TargetPortalAddress")?, port).map_err(|error| error.to_string())?;
    Ok(Portal { object: row.path()?, address })
}
