use std::collections::BTreeSet;
use std::sync::Arc;

use csi_proxy_proto::served;
use winstorage::fake::FakeHost;
use winstorage::service::Policy;

use super::*;

/// Each version has the calls with which it was released, and no others.
#[test]
fn table_has_exactly_the_methods_of_the_protocol_files() {
    let rows = include_str!("../../../csi-proxy-proto/tests/contract.tsv").lines();
    let expected: BTreeSet<String> = rows
        .map(|row| row.split('\t').collect::<Vec<_>>())
        .filter(|row| row[3] == "request")
        .map(|row| row[..3].join("/"))
        .collect();
    let mut found = BTreeSet::new();
    for (group, version) in served() {
        // This project's own addition has a separate service.
        for method in methods(group, version).into_iter().filter(|method| method.service.is_none()) {
            assert!(
                found.insert(format!("{group}/{version}/{}", method.name)),
                "{group}/{version}/{} twice",
                method.name
            );
        }
    }
    assert_eq!(found, expected);
}

/// This holds even if the pipe forwards the call. The error names the version that has it.
#[test]
fn call_newer_than_the_callers_version_is_rejected() {
    let storage = Storage::new(Arc::new(FakeHost::new()), Policy::new(Vec::new()));
    let around = |version: &str| Around {
        storage: &storage,
        version: version.parse().unwrap(),
        patience: std::time::Duration::ZERO,
    };
    let call = |group: Group, of: &str, name: &str, caller: &str| {
        let all = methods(group, of.parse().unwrap());
        let method = all.into_iter().find(|method| method.name == name).unwrap();
        // An empty string is the first field of all messages that have fields.
        let body = if name == "ListDiskIDs" { Bytes::new() } else { Bytes::from_static(&[0x0a, 1, b'0']) };
        let understood = (method.read)(body).unwrap();
        (understood.work.unwrap())(&around(caller)).err().map(|failure| failure.text())
    };
    let minimums = [
        (Group::Disk, "ListDiskIDs", "v1beta1", "v1alpha1"),
        (Group::Disk, "DiskStats", "v1beta1", "v1alpha1"),
        (Group::Volume, "VolumeStats", "v1beta1", "v1alpha1"),
        (Group::Volume, "GetVolumeDiskNumber", "v1beta1", "v1alpha1"),
        (Group::Volume, "GetVolumeIDFromMount", "v1beta1", "v1alpha1"),
        (Group::Disk, "SetAttachState", "v1beta2", "v1beta1"),
        (Group::Disk, "GetAttachState", "v1beta2", "v1beta1"),
        (Group::Iscsi, "SetMutualChapSecret", "v1alpha2", "v1alpha1"),
    ];
    for (group, name, minimum, older) in minimums {
        let refusal = format!("{name} requires CSI-Proxy API version {minimum} or greater");
        assert_eq!(call(group, minimum, name, older), Some(refusal.clone()));
        assert_ne!(call(group, minimum, name, minimum), Some(refusal));
    }
}
