use super::*;
use crate::node_metadata::provider_id::ProviderIdError;

const PLACE: [(&str, &str); 3] = [(INSTANCE_TYPE, "m5.large"), (REGION, "us-west-2"), (ZONE, "us-west-2a")];
const ENIS: &str = "ebs.csi.aws.com/enis-count";
const VOLUMES: &str = "ebs.csi.aws.com/non-csi-ebs-volumes-count";

fn node(more: &[(&str, &str)]) -> NodeObject {
    NodeObject::with("node-1", "aws:///us-west-2a/i-0abc", &[&PLACE, more].concat())
}

fn read(node: &NodeObject, kind: SourceKind) -> Result<Facts, NodeMetadataError> {
    facts(node, &DriverName::default(), kind)
}

fn counts(more: &[(&str, &str)], kind: SourceKind) -> Option<(u32, u32)> {
    let metadata = read(&node(more), kind).ok()?.metadata;
    let BlockDevices::Others(volumes) = metadata.block_devices else { panic!("{metadata:?}") };
    Some((metadata.network_interfaces, volumes))
}

/// The provider id names the instance. The well-known labels give the type, without SageMaker's prefix `ml.`, and the
/// region and zone. The error names a missing label or an invalid zone.
#[test]
fn instance_type_region_and_zone_are_read_from_the_node() {
    let metadata = read(&node(&[]), SourceKind::Kubernetes).unwrap().metadata;
    assert_eq!(metadata.node.to_string(), "i-0abc");
    let place = (metadata.instance_type.as_str(), metadata.region.as_str(), metadata.zone.as_str());
    assert_eq!(place, ("m5.large", "us-west-2", "us-west-2a"));
    assert_eq!(metadata.outpost, None);
    for (label, _) in PLACE {
        let mut without = node(&[]);
        without.metadata.labels.as_mut().unwrap().remove(label);
        let error = read(&without, SourceKind::Kubernetes).unwrap_err();
        assert!(error.to_string().contains(label) && error.to_string().contains("node-1"), "{error}");
    }
    let bad = read(&node(&[(ZONE, "Zone A")]), SourceKind::Kubernetes).unwrap_err();
    assert!(matches!(bad, NodeMetadataError::BadLabel { label: ZONE, .. }), "{bad}");
    let sagemaker = read(&node(&[(INSTANCE_TYPE, "ml.p5.48xlarge")]), SourceKind::Kubernetes).unwrap().metadata;
    assert_eq!(sagemaker.instance_type, "p5.48xlarge");
}

/// SageMaker's labels take precedence over the labeler's. Without either, the source assumes one interface and no
/// volume, and reports that nothing was counted.
#[test]
fn source_kubernetes_uses_any_label_with_a_valid_number() {
    let kubernetes = SourceKind::Kubernetes;
    for (labels, expected) in [
        (&[][..], (1, 0)),
        (&[(SAGEMAKER_INTERFACES, "4")], (4, 0)),
        (&[(SAGEMAKER_INTERFACES, "4"), (SAGEMAKER_VOLUMES, "2")], (4, 2)),
        (&[(SAGEMAKER_INTERFACES, "many"), (SAGEMAKER_VOLUMES, "2")], (1, 2)),
        (&[(SAGEMAKER_INTERFACES, "4"), (SAGEMAKER_VOLUMES, "-1")], (4, 0)),
        (&[(ENIS, "3"), (VOLUMES, "1")], (3, 1)),
        (&[(ENIS, "3"), (VOLUMES, "1"), (SAGEMAKER_INTERFACES, "4"), (SAGEMAKER_VOLUMES, "2")], (4, 2)),
    ] {
        assert_eq!(counts(labels, kubernetes), Some(expected), "{labels:?}");
    }
    assert!(read(&node(&[]), kubernetes).unwrap().is_uncounted);
    assert!(!read(&node(&[(ENIS, "3"), (VOLUMES, "1")]), kubernetes).unwrap().is_uncounted);
}

#[test]
fn source_metadata_labeler_requires_one_pair_of_labels() {
    let labeler = SourceKind::MetadataLabeler;
    for (labels, expected) in [
        (&[(ENIS, "3"), (VOLUMES, "1")][..], Some((3, 1))),
        (&[(ENIS, "3"), (VOLUMES, "1"), (SAGEMAKER_INTERFACES, "4")], Some((4, 0))),
        (&[(ENIS, "3"), (VOLUMES, "1"), (SAGEMAKER_INTERFACES, "4"), (SAGEMAKER_VOLUMES, "x")], Some((3, 1))),
        (&[(SAGEMAKER_INTERFACES, "4"), (SAGEMAKER_VOLUMES, "2")], Some((4, 2))),
        (&[(SAGEMAKER_VOLUMES, "2")], None),
        (&[(ENIS, "3")], None),
        (&[], None),
    ] {
        assert_eq!(counts(labels, labeler), expected, "{labels:?}");
    }
    let error = read(&node(&[(ENIS, "3"), (VOLUMES, "x")]), labeler).unwrap_err();
    assert!(error.to_string().contains(VOLUMES) && !error.to_string().contains(ENIS), "{error}");
}

/// A Node that is not an EC2 instance, such as a Fargate node or a node of another cloud, has a provider id of another
/// form.
#[test]
fn error_distinguishes_foreign_node_from_missing_provider_id() {
    let hybrid = NodeObject::with("node-1", "eks-hybrid:///us-west-2/c/mi-0abc", &PLACE);
    let error = read(&hybrid, SourceKind::Kubernetes).unwrap_err();
    assert!(error.foreign().is_some_and(|what| what.contains("mi-0abc")), "{error}");
    let fresh = read(&NodeObject::with("node-1", "", &PLACE), SourceKind::Kubernetes).unwrap_err();
    assert!(matches!(fresh, NodeMetadataError::ProviderId { source: ProviderIdError::Empty, .. }), "{fresh}");
    assert_eq!(fresh.foreign(), None);
}

/// The labels still name the Outpost if the metadata service does not answer.
#[test]
fn previously_registered_outpost_is_read_from_node_labels() {
    let labels = [
        ("topology.ebs.csi.aws.com/partition", "aws"),
        ("topology.ebs.csi.aws.com/region", "us-west-2"),
        ("topology.ebs.csi.aws.com/account-id", "123456789012"),
        ("topology.ebs.csi.aws.com/outpost-id", "op-0123456789abcdef0"),
    ];
    let arn = "arn:aws:outposts:us-west-2:123456789012:outpost/op-0123456789abcdef0";
    let outpost = |labels| read(&node(labels), SourceKind::Kubernetes).unwrap().metadata.outpost;
    assert_eq!(outpost(&labels).map(|arn| arn.to_string()).as_deref(), Some(arn));
    assert_eq!(outpost(&labels[1..]), None);
}
