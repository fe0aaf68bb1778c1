//! The SMB shares and iSCSI targets in the network of the fake machine.

use super::{FakeHost, State};
use crate::host::{
    Answer, HostError, IscsiHost, Mapping, MappingStatus, NewMapping, ObjectPath, Portal, Session, SmbHost, Target,
    TargetLogin, code,
};
use crate::types::{PortalAddress, Secret};

/// `ERROR_ALREADY_EXISTS`, as SMB methods return it.
const EXISTS: u32 = 0x8007_00B7;
/// `ERROR_LOGON_FAILURE`
const LOGON_FAILURE: u32 = 1326;
const NOT_FOUND: u32 = 0xEFFF_0003;

#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FakeShare {
    pub root: String,
    /// The required `user:password`, escaped as Windows expects it. `None` accepts any credential.
    pub credential: Option<String>,
    pub status: u32,
    pub is_mapped: bool,
    pub is_stale: bool,
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FakePortal {
    pub address: String,
    pub port: u16,
    pub targets: Vec<FakeTarget>,
}

#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FakeTarget {
    pub iqn: String,
    pub secret: Option<String>,
    pub disks: Vec<u32>,
    pub is_connected: bool,
    pub is_persistent: bool,
    pub has_no_session: bool,
}

#[derive(Debug, Default)]
pub(super) struct Shares {
    pub(super) all: Vec<FakeShare>,
}

#[derive(Debug, Default)]
pub(super) struct Iscsi {
    pub(super) portals: Vec<FakePortal>,
    pub(super) known: Vec<PortalAddress>,
    pub(super) chap_secret: Option<Secret>,
}

impl FakeHost {
    pub fn add_share(&self, share: FakeShare) {
        self.state().shares.all.push(share);
    }

    pub fn is_mapped(&self, root: &str) -> bool {
        self.state().shares.all.iter().any(|share| share.root.eq_ignore_ascii_case(root) && share.is_mapped)
    }

    pub fn add_portal_to_network(&self, portal: FakePortal) {
        self.state().iscsi.portals.push(portal);
    }

    pub fn chap_secret(&self) -> Option<Secret> {
        self.state().iscsi.chap_secret.clone()
    }
}

impl Shares {
    fn find(&mut self, root: &str) -> Option<&mut FakeShare> {
        self.all.iter_mut().find(|share| share.root.eq_ignore_ascii_case(root))
    }

    pub(super) fn is_reachable(&self, path: &str) -> Result<bool, Answer> {
        let path = path.to_lowercase();
        let share = self.all.iter().find(|share| path.starts_with(&share.root.to_lowercase()));
        match share {
            Some(share) if share.is_stale => Err(Answer::Win32(LOGON_FAILURE)),
            share => Ok(share.is_some_and(|share| share.is_mapped)),
        }
    }
}

impl SmbHost for FakeHost {
    fn mapping(&self, root: &str) -> Result<Option<Mapping>, HostError> {
        self.step("mapping", root, |state| {
            let mapped = state.shares.find(root).filter(|share| share.is_mapped);
            Ok(mapped.map(|share| Mapping {
                object: ObjectPath(share.root.clone()),
                root: share.root.clone(),
                status: if share.status == 0 { MappingStatus::Ok } else { MappingStatus::Bad(share.status) },
            }))
        })
    }

    fn create_mapping(&self, wanted: &NewMapping) -> Result<(), HostError> {
        let object = format!("{} privacy {}", wanted.root, wanted.require_privacy);
        self.step("create_mapping", &object, |state| {
            let refuse = |code| Err(Answer::Method(code));
            let Some(share) = state.shares.find(&wanted.root) else { return refuse(code::PATH_NOT_FOUND) };
            let given = wanted.credential.as_ref().map(Secret::expose);
            match &share.credential {
                _ if share.is_mapped => refuse(EXISTS),
                Some(needed) if given != Some(needed.as_str()) => refuse(LOGON_FAILURE),
                _ => {
                    (share.is_mapped, share.is_stale, share.status) = (true, false, 0);
                    Ok(())
                }
            }
        })
    }

    fn remove_mapping(&self, mapping: &Mapping) -> Result<(), HostError> {
        self.step("remove_mapping", &mapping.root, |state| {
            let share = state.shares.find(&mapping.root).filter(|share| share.is_mapped);
            share.ok_or(Answer::Method(code::FILE_NOT_FOUND))?.is_mapped = false;
            Ok(())
        })
    }
}

impl Iscsi {
    fn target(&mut self, object: &ObjectPath) -> Option<&mut FakeTarget> {
        self.portals.iter_mut().flat_map(|portal| &mut portal.targets).find(|target| target.iqn == object.0)
    }

    fn existing(&self, address: &PortalAddress) -> Option<&FakePortal> {
        self.portals.iter().find(|portal| portal.address == address.address() && portal.port == address.port())
    }
}

fn shown(address: &PortalAddress) -> Portal {
    Portal { object: ObjectPath(address.to_string()), address: address.clone() }
}

fn on_target<T>(
    state: &mut State,
    object: &ObjectPath,
    act: impl FnOnce(&mut FakeTarget) -> Result<T, u32>,
) -> Result<T, Answer> {
    let target = state.iscsi.target(object).ok_or(Answer::Method(NOT_FOUND))?;
    act(target).map_err(Answer::Method)
}

impl IscsiHost for FakeHost {
    fn portals(&self) -> Result<Vec<Portal>, HostError> {
        self.step("portals", "all", |state| Ok(state.iscsi.known.iter().map(shown).collect()))
    }

    fn portal(&self, address: &PortalAddress) -> Result<Option<Portal>, HostError> {
        self.step("portal", address.to_string(), |state| {
            Ok(state.iscsi.known.iter().find(|known| *known == address).map(shown))
        })
    }

    fn add_portal(&self, address: &PortalAddress) -> Result<(), HostError> {
        self.step("add_portal", address.to_string(), |state| {
            if state.iscsi.existing(address).is_none() {
                return Err(Answer::Method(NOT_FOUND));
            }
            state.iscsi.known.push(address.clone());
            Ok(())
        })
    }

    fn remove_portal(&self, portal: &Portal) -> Result<(), HostError> {
        self.step("remove_portal", portal.address.to_string(), |state| {
            state.iscsi.known.retain(|known| *known != portal.address);
            Ok(())
        })
    }

    fn targets(&self, portal: &Portal) -> Result<Vec<Target>, HostError> {
        self.step("targets", portal.address.to_string(), |state| {
            let offered = state.iscsi.existing(&portal.address).into_iter().flat_map(|portal| &portal.targets);
            Ok(offered
                .map(|target| Target {
                    object: ObjectPath(target.iqn.clone()),
                    iqn: target.iqn.clone(),
                    is_connected: target.is_connected,
                })
                .collect())
        })
    }

    fn sessions(&self, target: &Target) -> Result<Vec<Session>, HostError> {
        self.step("sessions", &target.iqn, |state| {
            on_target(state, &target.object, |target| {
                let has_one = target.is_connected && !target.has_no_session;
                let session = Session {
                    object: ObjectPath(target.iqn.clone()),
                    identifier: format!("session-{}", target.iqn),
                    is_persistent: target.is_persistent,
                };
                Ok(has_one.then_some(session).into_iter().collect())
            })
        })
    }

    fn target_disks(&self, target: &Target) -> Result<Vec<u32>, HostError> {
        self.step("target_disks", &target.iqn, |state| {
            on_target(state, &target.object, |target| Ok(target.disks.clone()))
        })
    }

    fn connect(&self, login: &TargetLogin) -> Result<(), HostError> {
        let object = format!("{} {} user {}", login.iqn, login.authentication.as_str(), login.user.is_some());
        self.step("connect", &object, |state| {
            on_target(state, &ObjectPath(login.iqn.to_string()), |target| {
                let given = login.secret.as_ref().map(Secret::expose);
                if target.secret.is_some() && target.secret.as_deref() != given {
                    return Err(LOGON_FAILURE);
                }
                target.is_connected = true;
                Ok(())
            })
        })
    }

    fn disconnect(&self, target: &Target, session: &Session) -> Result<(), HostError> {
        self.step("disconnect", &session.identifier, |state| {
            on_target(state, &target.object, |target| {
                target.is_connected = false;
                Ok(())
            })
        })
    }

    fn unregister(&self, session: &Session) -> Result<(), HostError> {
        self.step("unregister", &session.identifier, |state| {
            on_target(state, &session.object, |target| {
                target.is_persistent = false;
                Ok(())
            })
        })
    }

    fn set_chap_secret(&self, secret: &Secret) -> Result<(), HostError> {
        self.step("set_chap_secret", "this machine", |state| {
            state.iscsi.chap_secret = Some(secret.clone());
            Ok(())
        })
    }
}
