//! Converts a Node object to the metadata of its machine.

use ebs_ec2::{DriverName, NodeId, OutpostArn, ZoneName};
use ebs_metadata::{BlockDevices, NodeMetadata, SourceKind};

use super::error::NodeMetadataError;
use super::provider_id::node_of;
use crate::object::NodeObject;

pub(super) const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
pub(super) const REGION: &str = "topology.kubernetes.io/region";
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
const SAGEMAKER_INTERFACES: &str = "sagemaker.amazonaws.com/num-eni-attachments";
const SAGEMAKER_VOLUMES: &str = "sagemaker.amazonaws.com/num-block-device-mappings";
const SAGEMAKER_TYPE: &str = "ml.";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabelKeys {
    /// The label with the number of the instance's network interfaces.
    pub(crate) interfaces: String,
    /// The label with the number of volumes that the driver does not manage.
    pub(crate) volumes: String,
}

impl LabelKeys {
    pub(crate) fn of(driver: &DriverName) -> Self {
        Self { interfaces: format!("{driver}/enis-count"), volumes: format!("{driver}/non-csi-ebs-volumes-count") }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) metadata: NodeMetadata,
    /// True if no label gives the numbers of interfaces and volumes, so the source assumes the minimum.
    pub(super) is_uncounted: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    interfaces: Option<u32>,
    volumes: Option<u32>,
}

impl Counts {
    fn of(node: &NodeObject, interfaces: &str, volumes: &str) -> Self {
        let number = |key| node.label(key).and_then(|text| text.parse().ok());
        Self { interfaces: number(interfaces), volumes: number(volumes) }
    }
}

/// Reads the metadata from a Node, for a source of the given kind.
///
/// SageMaker's labels take precedence over the labeler's. Without either, the source `kubernetes` assumes one network
/// interface and no other volumes, and the source `metadata-labeler` fails.
pub(super) fn facts(node: &NodeObject, driver: &DriverName, kind: SourceKind) -> Result<Facts, NodeMetadataError> {
    let name = || node.name().to_owned();
    let id =
        node_of(&node.spec.provider_id).map_err(|source| NodeMetadataError::ProviderId { node: name(), source })?;
    let required = |label: &'static str| {
        let value = node.label(label).filter(|value| !value.is_empty());
        value.ok_or_else(|| NodeMetadataError::MissingLabel { node: name(), label })
    };
    let instance_type = required(INSTANCE_TYPE)?;
    let region = required(REGION)?.to_owned();
    let zone = ZoneName::parse(required(ZONE)?);
    let zone = zone.map_err(|source| NodeMetadataError::BadLabel { node: name(), label: ZONE, source })?;
    let sagemaker = Counts::of(node, SAGEMAKER_INTERFACES, SAGEMAKER_VOLUMES);
    let keys = LabelKeys::of(driver);
    let labeler = Counts::of(node, &keys.interfaces, &keys.volumes);
    let (interfaces, volumes) = match kind {
        SourceKind::MetadataLabeler => counted(node, sagemaker, labeler)
            .ok_or_else(|| NodeMetadataError::NotLabelled { node: name(), labels: missing(&keys, labeler) })?,
        SourceKind::Imds | SourceKind::Kubernetes => (
            sagemaker.interfaces.or(labeler.interfaces).unwrap_or(1),
            sagemaker.volumes.or(labeler.volumes).unwrap_or(0),
        ),
    };
    let metadata = NodeMetadata {
        outpost: outpost(node, driver),
        node: id,
        instance_type: instance_type.strip_prefix(SAGEMAKER_TYPE).unwrap_or(instance_type).to_owned(),
        region,
        zone,
        network_interfaces: interfaces,
        block_devices: BlockDevices::Others(volumes),
    };
    let is_uncounted = sagemaker.interfaces.or(labeler.interfaces).is_none();
    Ok(Facts { metadata, is_uncounted })
}

/// Returns the counts of the first valid pair. SageMaker's pair is valid if the interfaces are a number, and the
/// volumes are a number or missing. The labeler's pair is valid if both are numbers.
fn counted(node: &NodeObject, sagemaker: Counts, labeler: Counts) -> Option<(u32, u32)> {
    let volumes = sagemaker.volumes.or_else(|| node.label(SAGEMAKER_VOLUMES).is_none().then_some(0));
    sagemaker.interfaces.zip(volumes).or_else(|| labeler.interfaces.zip(labeler.volumes))
}

fn missing(keys: &LabelKeys, labeler: Counts) -> String {
    let missing = [(labeler.interfaces, &keys.interfaces), (labeler.volumes, &keys.volumes)];
    let missing = missing.into_iter().filter(|(count, _)| count.is_none()).map(|(_, key)| key.as_str());
    missing.collect::<Vec<_>>().join(" and ")
}

/// Returns the Outpost from the Node's labels, which the kubelet wrote when the driver registered earlier.
fn outpost(node: &NodeObject, driver: &DriverName) -> Option<OutpostArn> {
    let partition = node.label(&driver.partition_key())?;
    let region = node.label(&driver.region_key())?;
    let account = node.label(&driver.account_key())?;
    let outpost = node.label(&driver.outpost_key())?;
    OutpostArn::parse(&format!("arn:{partition}:outposts:{region}:{account}:outpost/{outpost}")).ok()
}

/// Returns a Node's instance, or `None` for a HyperPod node, whose instance belongs to another account.
pub(crate) fn described_instance(node: &NodeObject) -> Option<ebs_ec2::InstanceId> {
    match node_of(&node.spec.provider_id) {
        Ok(NodeId::Instance(instance)) => Some(instance),
        Ok(NodeId::HyperPod(_)) | Err(_) => None,
    }
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
