//! The part of PersistentVolumes that the labeler reads.

use ebs_ec2::{DriverName, VolumeId};
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use crate::node_metadata::kept;

/// A PersistentVolume and its volume.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct VolumeView {
    #[serde(deserialize_with = "kept")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: VolumeSpecView,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct VolumeSpecView {
    pub(crate) csi: Option<CsiView>,
    pub(crate) aws_elastic_block_store: Option<InTreeView>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CsiView {
    pub(crate) driver: String,
    pub(crate) volume_handle: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct InTreeView {
    #[serde(rename = "volumeID")]
    pub(crate) volume_id: String,
}

impl VolumeView {
    pub(crate) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the EBS volume that this driver attaches. The driver also attaches volumes of the in-tree plug-in, whose
    /// ids often follow a zone.
    pub(crate) fn ebs_volume(&self, driver: &DriverName) -> Option<VolumeId> {
        let csi = self.spec.csi.as_ref().filter(|csi| csi.driver == driver.as_str()).map(|csi| &csi.volume_handle);
        let in_tree = self.spec.aws_elastic_block_store.as_ref().map(|in_tree| &in_tree.volume_id);
        VolumeId::from_handle(csi.or(in_tree)?).ok()
    }
}

impl k8s_openapi::Resource for VolumeView {
    const API_VERSION: &'static str = "v1";
    const GROUP: &'static str = "";
    const KIND: &'static str = "PersistentVolume";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "persistentvolumes";
    type Scope = ClusterResourceScope;
}

impl k8s_openapi::Metadata for VolumeView {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volume(spec: serde_json::Value) -> Option<String> {
        let view = json!({ "metadata": { "name": "pv" }, "spec": spec });
        let view: VolumeView = serde_json::from_value(view).unwrap();
        view.ebs_volume(&DriverName::default()).map(|id| id.to_string())
    }

    /// A PersistentVolume belongs to the driver if its driver is this one or the in-tree plug-in.
    #[test]
    fn volume_ids_are_read_without_their_prefix() {
        let csi =
            |driver, handle| volume(json!({ "csi": { "driver": driver, "volumeHandle": handle, "fsType": "xfs" } }));
        let in_tree = |id| volume(json!({ "awsElasticBlockStore": { "volumeID": id, "fsType": "ext4" } }));
        assert_eq!(csi("ebs.csi.aws.com", "vol-0abc").as_deref(), Some("vol-0abc"));
        assert_eq!(csi("ebs.csi.aws.com", "aws://us-west-2a/vol-0abc").as_deref(), Some("vol-0abc"));
        assert_eq!(csi("efs.csi.aws.com", "vol-0abc"), None);
        assert_eq!(in_tree("vol-0abc").as_deref(), Some("vol-0abc"));
        assert_eq!(in_tree("aws://us-west-2a/vol-0abc").as_deref(), Some("vol-0abc"));
        assert_eq!(csi("ebs.csi.aws.com", "local-ebs://dev/xvdb"), None);
        assert_eq!(volume(json!({ "nfs": { "server": "a", "path": "/" } })), None);
        assert_eq!(volume(json!({})), None);
    }
}
