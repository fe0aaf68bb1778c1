//! iSCSI.

use super::vocabulary::{self, Association, Call, Class};
use super::{On, Row, Value, Wmi, WmiHost};
use crate::host::{HostError, IscsiHost, NativeHost, Portal, Session, Target, TargetLogin};
use crate::types::{PortalAddress, Secret};

impl<W: Wmi, N: NativeHost> IscsiHost for WmiHost<W, N> {
    fn portals(&self) -> Result<Vec<Portal>, HostError> {
        let rows = self.query(Class::IscsiTargetPortal, vocabulary::PORTALS, &"all portals")?;
        let odd = |what| HostError::malformed(Class::IscsiTargetPortal.name(), "all portals", what);
        rows.iter().map(read_portal).collect::<Result<_, String>>().map_err(odd)
    }

    fn portal(&self, address: &PortalAddress) -> Result<Option<Portal>, HostError> {
        let wql = vocabulary::portal(address.address(), address.port());
        let rows = self.query(Class::IscsiTargetPortal, &wql, address)?;
        let read = |row: &Row| Ok::<_, String>(Portal { object: row.path()?, address: address.clone() });
        let odd = |what| HostError::malformed(Class::IscsiTargetPortal.name(), address, what);
        rows.first().map(read).transpose().map_err(odd)
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
        let rows = self.associated(Class::IscsiTarget, &wql, &portal.address)?;
        let read = |row: &Row| {
            let iqn = row.text("NodeAddress")?.to_owned();
            Ok(Target { object: row.path()?, iqn, is_connected: row.flag("IsConnected")? })
        };
        let odd = |what| HostError::malformed(Class::IscsiTarget.name(), &portal.address, what);
        rows.iter().map(read).collect::<Result<_, String>>().map_err(odd)
    }

    fn sessions(&self, target: &Target) -> Result<Vec<Session>, HostError> {
        let wql = vocabulary::associated(&target.object, Association::TargetToSession, Class::IscsiSession);
        let rows = self.associated(Class::IscsiSession, &wql, &target.iqn)?;
        let read = |row: &Row| {
            let identifier = row.text("SessionIdentifier")?.to_owned();
            Ok(Session { object: row.path()?, identifier, is_persistent: row.flag("IsPersistent")? })
        };
        let odd = |what| HostError::malformed(Class::IscsiSession.name(), &target.iqn, what);
        rows.iter().map(read).collect::<Result<_, String>>().map_err(odd)
    }

    fn target_disks(&self, target: &Target) -> Result<Vec<u32>, HostError> {
        let wql = vocabulary::associated(&target.object, Association::TargetToConnection, Class::IscsiConnection);
        let odd = |what| HostError::malformed(Class::Disk.name(), &target.iqn, what);
        let mut disks = Vec::new();
        for connection in self.associated(Class::IscsiConnection, &wql, &target.iqn)? {
            let connection = connection.path().map_err(odd)?;
            let wql = vocabulary::associated(&connection, Association::ConnectionToDisk, Class::Disk);
            for disk in self.associated(Class::Disk, &wql, &target.iqn)? {
                disks.push(disk.number32("Number").map_err(odd)?);
            }
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
