//! Tests of SMB shares and iSCSI targets.

use super::*;
use crate::fake::{Effect, FakePortal, FakeShare, FakeTarget};
use crate::host::{Answer, EntryKind};
use crate::service::{Login, SmbMapping};
use crate::types::Secret;
use crate::{StorageError, WayError};

const SHARE: &str = r"\\host\share";
const IQN: &str = "iqn.1991-05.com.example:t";

fn share() -> FakeShare {
    FakeShare { root: SHARE.to_owned(), credential: Some(r"corp\\eve:pw".to_owned()), ..FakeShare::default() }
}

fn mapping(local: &str) -> SmbMapping {
    SmbMapping {
        remote_path: r"\\Host\Share\Sub".to_owned(),
        local_path: local.to_owned(),
        username: r"corp\eve".to_owned(),
        password: Secret::new("pw"),
    }
}

#[test]
fn working_smb_mapping_is_kept_and_stale_one_replaced() {
    let (host, storage) = machine();
    host.add_share(share());
    for _ in 0..2 {
        storage.new_smb_global_mapping(&mapping("")).unwrap();
    }
    assert!(host.is_mapped(SHARE));
    assert_eq!(host.calls("create_mapping"), 1);
    assert!(host.log().contains(&format!("create_mapping {SHARE} privacy true")), "{:?}", host.log());

    for effect in [Effect::Fail(Answer::Win32(1326)), Effect::Meanwhile(Box::new(|_| {}))] {
        let (host, storage) = machine();
        host.add_share(FakeShare { is_mapped: true, is_stale: true, ..share() });
        host.inject("path_valid", 0, effect);
        storage.new_smb_global_mapping(&mapping("")).unwrap();
        assert_eq!((host.calls("remove_mapping"), host.calls("create_mapping")), (1, 1));
    }
    let (host, storage) = machine();
    host.add_share(share());
    host.inject("mapping", 0, Effect::Fail(Answer::Com(0x8004_100E)));
    storage.new_smb_global_mapping(&mapping("")).unwrap();
    assert!(host.is_mapped(SHARE));
}

#[test]
fn share_link_is_checked_before_and_created_after_mapping() {
    let (host, storage) = machine();
    host.add_share(share());
    let refused = storage.new_smb_global_mapping(&mapping(r"C:\Windows\x")).unwrap_err();
    assert!(matches!(refused, StorageError::Path(_)));
    assert_eq!(host.log(), Vec::<String>::new());

    for _ in 0..2 {
        storage.new_smb_global_mapping(&mapping(&at("smb"))).unwrap();
    }
    let link = EntryKind::SymbolicLink { target: r"\\?\UNC\Host\Share\Sub\".to_owned(), is_directory: true };
    assert_eq!(host.kind_at(&at("smb")), Some(link));
    // Use the form in which Windows reports the target.
    host.remove_path(&at("smb"));
    host.add_link(&at("smb"), r"\\host\share\sub");
    storage.new_smb_global_mapping(&mapping(&at("smb"))).unwrap();

    let taken = storage.new_smb_global_mapping(&mapping(&at("pods"))).unwrap_err();
    let text = format!(r"creating link {} to \\Host\Share\Sub failed with error: {0} already exists", at("pods"));
    assert_eq!(taken.text(), text);
    assert!(
        matches!(taken, StorageError::ShareLink { cause, .. } if matches!(*cause, StorageError::Way(WayError::Exists { .. })))
    );
}

#[test]
fn removing_a_missing_smb_mapping_succeeds() {
    let (host, storage) = machine();
    storage.remove_smb_global_mapping(SHARE).unwrap();
    assert_eq!(host.calls("remove_mapping"), 0);
    host.add_share(FakeShare { is_mapped: true, ..share() });
    storage.remove_smb_global_mapping("//HOST/share/sub").unwrap();
    assert!(!host.is_mapped(SHARE));
    assert_eq!(storage.remove_smb_global_mapping("host").unwrap_err().text(), "remote path (host) is invalid");
}

fn login(auth_type: i32) -> Login {
    Login { auth_type, user: String::new(), secret: Secret::default() }
}

fn target(target: FakeTarget) -> (FakeHost, Storage) {
    let (host, storage) = machine();
    let targets = vec![FakeTarget { iqn: IQN.to_owned(), ..target }];
    host.add_portal_to_network(FakePortal { address: "10.0.0.1".to_owned(), port: 3260, targets });
    storage.add_target_portal("10.0.0.1", 0).unwrap();
    (host, storage)
}

#[test]
fn iscsi_target_is_added_connected_and_disconnected() {
    let (host, storage) = target(FakeTarget { disks: vec![4, 5], ..FakeTarget::default() });
    storage.add_target_portal("10.0.0.1", 3260).unwrap();
    assert_eq!(host.calls("add_portal"), 1);
    assert_eq!(
        storage.list_target_portals().unwrap().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.0.0.1:3260"]
    );
    assert_eq!(storage.discover_target_portal("10.0.0.1", 0).unwrap(), [IQN]);
    assert!(storage.target_disks("10.0.0.1", 0, IQN).unwrap().is_empty());
    for _ in 0..2 {
        storage.connect_target("10.0.0.1", 0, IQN, &login(0)).unwrap();
    }
    assert_eq!(host.calls("connect"), 1);
    assert!(host.log().contains(&format!("connect {IQN} NONE user false")), "{:?}", host.log());
    assert_eq!(storage.target_disks("10.0.0.1", 0, IQN).unwrap(), ["4", "5"]);
    for _ in 0..2 {
        storage.disconnect_target("10.0.0.1", 0, IQN).unwrap();
        storage.remove_target_portal("10.0.0.1", 0).ok();
        storage.add_target_portal("10.0.0.1", 0).unwrap();
    }
    assert_eq!(host.calls("disconnect"), 1);
    storage.remove_target_portal("10.0.0.1", 0).unwrap();
    storage.remove_target_portal("10.0.0.1", 0).unwrap();
    let unknown = storage.discover_target_portal("10.0.0.1", 0).unwrap_err();
    assert_eq!(unknown.text(), "target portal 10.0.0.1:3260 not found");
    let bad = storage.connect_target("10.0.0.1", 0, IQN, &login(7)).unwrap_err();
    assert_eq!(bad.text(), "invalid authentication type authType=7");
}

#[test]
fn persistent_session_is_unregistered_before_logout() {
    let (host, storage) = target(FakeTarget { is_connected: true, is_persistent: true, ..FakeTarget::default() });
    storage.disconnect_target("10.0.0.1", 0, IQN).unwrap();
    let log = host.log();
    let ends: Vec<&str> = log
        .iter()
        .filter_map(|line| line.split(' ').next())
        .filter(|step| ["unregister", "disconnect"].contains(step))
        .collect();
    assert_eq!(ends, ["unregister", "disconnect"]);

    let (host, storage) = target(FakeTarget { is_connected: true, has_no_session: true, ..FakeTarget::default() });
    storage.disconnect_target("10.0.0.1", 0, IQN).unwrap();
    assert_eq!(host.calls("disconnect"), 0);
}

#[test]
fn mutual_chap_secret_outside_1_to_16_bytes_is_rejected() {
    let (host, storage) = machine();
    for secret in ["", "12345678901234567"] {
        assert!(matches!(storage.set_mutual_chap_secret(&Secret::new(secret)), Err(StorageError::ChapSecret(_))));
    }
    storage.set_mutual_chap_secret(&Secret::new("123456789012")).unwrap();
    assert_eq!(host.chap_secret(), Some(Secret::new("123456789012")));
}
