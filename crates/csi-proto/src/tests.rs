//! What requests show of themselves.

use std::collections::HashMap;
use std::fmt::Debug;

use prost::Message;

use super::csi::*;

const CANARY: &str = "cAnArY";

fn secrets() -> HashMap<String, String> {
    [(format!("{CANARY}-key"), format!("{CANARY}-value"))].into()
}

/// How a message shows itself that was read from bytes with a secret at its field `number`.
fn shown<M: Message + Default + Debug>(number: u32) -> String {
    /// Any request, as far as its secrets go.
    #[derive(Default)]
    struct Secrets(u32, HashMap<String, String>);
    impl Secrets {
        fn bytes(&self) -> Vec<u8> {
            let mut bytes = Vec::new();
            let encode = prost::encoding::string::encode;
            let length = prost::encoding::string::encoded_len;
            prost::encoding::hash_map::encode(encode, length, encode, length, self.0, &self.1, &mut bytes);
            bytes
        }
    }
    let message = M::decode(Secrets(number, secrets()).bytes().as_slice()).expect("a map of strings");
    format!("{message:?} {message:#?}")
}

/// All requests that can hold secrets, found in the protocol file, show only how many they hold: also in the message of a panic.
///
/// Rule: D-41
#[test]
fn no_request_shows_its_secrets() {
    let requests: Vec<(&str, u32, fn(u32) -> String)> = vec![
        ("CreateVolumeRequest", 5, shown::<CreateVolumeRequest>),
        ("DeleteVolumeRequest", 2, shown::<DeleteVolumeRequest>),
        ("ControllerPublishVolumeRequest", 5, shown::<ControllerPublishVolumeRequest>),
        ("ControllerUnpublishVolumeRequest", 3, shown::<ControllerUnpublishVolumeRequest>),
        ("ValidateVolumeCapabilitiesRequest", 5, shown::<ValidateVolumeCapabilitiesRequest>),
        ("ControllerListVolumeHealthRequest", 3, shown::<ControllerListVolumeHealthRequest>),
        ("ControllerGetVolumeHealthRequest", 2, shown::<ControllerGetVolumeHealthRequest>),
        ("ControllerModifyVolumeRequest", 2, shown::<ControllerModifyVolumeRequest>),
        ("CreateSnapshotRequest", 3, shown::<CreateSnapshotRequest>),
        ("DeleteSnapshotRequest", 2, shown::<DeleteSnapshotRequest>),
        ("ListSnapshotsRequest", 5, shown::<ListSnapshotsRequest>),
        ("GetSnapshotRequest", 2, shown::<GetSnapshotRequest>),
        ("ControllerExpandVolumeRequest", 3, shown::<ControllerExpandVolumeRequest>),
        ("NodeStageVolumeRequest", 5, shown::<NodeStageVolumeRequest>),
        ("NodePublishVolumeRequest", 7, shown::<NodePublishVolumeRequest>),
        ("NodeGetStorageHealthRequest", 1, shown::<NodeGetStorageHealthRequest>),
        ("NodeExpandVolumeRequest", 6, shown::<NodeExpandVolumeRequest>),
        ("CreateVolumeGroupSnapshotRequest", 3, shown::<CreateVolumeGroupSnapshotRequest>),
        ("DeleteVolumeGroupSnapshotRequest", 3, shown::<DeleteVolumeGroupSnapshotRequest>),
        ("GetVolumeGroupSnapshotRequest", 3, shown::<GetVolumeGroupSnapshotRequest>),
        ("GetMetadataAllocatedRequest", 4, shown::<GetMetadataAllocatedRequest>),
        ("GetMetadataDeltaRequest", 5, shown::<GetMetadataDeltaRequest>),
    ];
    let in_the_file =
        include_str!("../../../proto/csi.proto").lines().filter(|line| line.contains("> secrets = ")).count();
    assert_eq!(requests.len(), in_the_file);
    for (name, number, show) in requests {
        let text = show(number);
        assert!(text.starts_with(name) && text.contains("secrets: (1 not shown)"), "{name}: {text}");
        assert!(!text.contains(CANARY), "{name}: {text}");
    }
}
