//! Checks that the `Debug` output of requests hides secrets.

use std::collections::HashMap;
use std::fmt::Debug;

use prost::Message;

use super::csi::*;

const CANARY: &str = "cAnArY";

/// Decodes a message with a secret in its field `number`, and returns its `Debug` output.
fn shown<M: Message + Default + Debug>(number: u32) -> String {
    let secrets: HashMap<String, String> = [(format!("{CANARY}-key"), format!("{CANARY}-value"))].into();
    let (encode, length) = (prost::encoding::string::encode, prost::encoding::string::encoded_len);
    let mut bytes = Vec::new();
    prost::encoding::hash_map::encode(encode, length, encode, length, number, &secrets, &mut bytes);
    let message = M::decode(bytes.as_slice()).expect("a map of strings");
    format!("{message:?} {message:#?}")
}

type Request = (&'static str, u32, fn(u32) -> String);

#[test]
fn debug_output_of_requests_hides_secrets() {
    let requests: [Request; 22] = [
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
