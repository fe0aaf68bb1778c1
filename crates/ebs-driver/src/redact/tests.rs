use csi_proto::csi::volume_content_source::{SnapshotSource, Type};

use super::*;

const CANARY: &str = "canary-7f3a";

fn secrets() -> HashMap<String, String> {
    HashMap::from([("key".to_owned(), CANARY.to_owned()), (CANARY.to_owned(), "x".to_owned())])
}

fn texts(request: &impl Summarize) -> [String; 2] {
    [request.summary().to_string(), format!("{:?}", request.summary())]
}

#[test]
fn no_request_summary_contains_a_secret() {
    let all = [
        texts(&csi::CreateVolumeRequest { secrets: secrets(), ..Default::default() }),
        texts(&csi::DeleteVolumeRequest { secrets: secrets(), ..Default::default() }),
        texts(&csi::ControllerPublishVolumeRequest { secrets: secrets(), ..Default::default() }),
        texts(&csi::ControllerUnpublishVolumeRequest { secrets: secrets(), ..Default::default() }),
        texts(&csi::ValidateVolumeCapabilitiesRequest { secrets: secrets(), ..Default::default() }),
        texts(&csi::ControllerExpandVolumeRequest { secrets: secrets(), ..Default::default() }),
        texts(&csi::ControllerModifyVolumeRequest { secrets: secrets(), ..Default::default() }),
        texts(&modify::ModifyVolumePropertiesRequest { context: secrets(), ..Default::default() }),
        texts(&csi::CreateSnapshotRequest { secrets: secrets(), ..Default::default() }),
        texts(&csi::DeleteSnapshotRequest { secrets: secrets(), ..Default::default() }),
        texts(&csi::ListSnapshotsRequest { secrets: secrets(), ..Default::default() }),
        texts(&csi::GetSnapshotRequest { secrets: secrets(), ..Default::default() }),
        texts(&csi::NodeStageVolumeRequest { secrets: secrets(), ..Default::default() }),
        texts(&csi::NodePublishVolumeRequest { secrets: secrets(), ..Default::default() }),
        texts(&csi::NodeExpandVolumeRequest { secrets: secrets(), ..Default::default() }),
    ];
    for text in all.as_flattened() {
        assert!(!text.contains(CANARY), "{text}");
    }
}

/// The driver uses the request as received, including its secrets.
#[test]
fn logging_a_request_does_not_change_it() {
    let sent = csi::NodeStageVolumeRequest { secrets: secrets(), ..Default::default() };
    let received = crate::request_log::receive(tonic::Request::new(sent.clone()));
    assert_eq!(received, sent);
}

/// The summary hides values of suspicious keys in other maps, too.
#[test]
fn secret_in_a_parameter_map_is_not_logged() {
    let parameters = HashMap::from([
        ("csi.storage.k8s.io/provisioner-Secret-name".to_owned(), CANARY.to_owned()),
        ("type".to_owned(), "gp3".to_owned()),
    ]);
    let [text, _] = texts(&csi::CreateVolumeRequest { parameters, ..Default::default() });
    assert!(!text.contains(CANARY) && text.contains("gp3"), "{text}");
}

#[test]
fn request_summary_contains_subject_and_important_fields() {
    let request = csi::CreateVolumeRequest {
        name: "pvc-1".to_owned(),
        volume_content_source: Some(csi::VolumeContentSource {
            r#type: Some(Type::Snapshot(SnapshotSource { snapshot_id: "snap-1".to_owned() })),
        }),
        ..Default::default()
    };
    let summary = request.summary();
    assert_eq!((summary.rpc.name(), summary.subject.as_str()), ("CreateVolume", "pvc-1"));
    assert!(summary.to_string().contains("snap-1"));
}
