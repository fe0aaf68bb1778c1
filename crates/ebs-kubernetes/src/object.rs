//! The parts of objects that the driver reads. The deserializer skips all other parts, so that they use no memory: a
//! Node lists the images on its machine, and every object lists its managed fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use ebs_ec2::{DriverName, VolumeId};
use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub(crate) type NodeObject = Slim<Node, NodeSpec>;
pub(crate) type AttachmentObject = Slim<VolumeAttachment, AttachmentSpec>;
pub(crate) type VolumeObject = Slim<PersistentVolume, VolumeSpec>;

/// An object of kind `K` that keeps only its identity, its labels and the specification `S`.
#[derive(Debug, Clone, Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default"))]
pub(crate) struct Slim<K, S> {
    #[serde(deserialize_with = "kept")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: S,
    #[serde(skip)]
    kind: PhantomData<fn() -> K>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct NodeSpec {
    /// The taints as the server sent them, so that a patch also compares fields that this version does not know.
    pub(crate) taints: Option<Vec<Value>>,
    #[serde(rename = "providerID")]
    pub(crate) provider_id: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AttachmentSpec {
    /// The name of the driver that attaches the volume.
    pub(crate) attacher: String,
    pub(crate) node_name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeSpec {
    csi: Option<CsiSource>,
    aws_elastic_block_store: Option<InTreeSource>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CsiSource {
    driver: String,
    volume_handle: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct InTreeSource {
    #[serde(rename = "volumeID")]
    volume_id: String,
}

impl<K, S> Slim<K, S> {
    pub(crate) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }
}

impl VolumeObject {
    /// Returns the EBS volume, if this driver attaches it. The driver also attaches the in-tree plug-in's volumes.
    pub(crate) fn ebs_volume(&self, driver: &DriverName) -> Option<VolumeId> {
        let csi = self.spec.csi.as_ref().filter(|csi| csi.driver == driver.as_str()).map(|csi| &csi.volume_handle);
        let in_tree = self.spec.aws_elastic_block_store.as_ref().map(|in_tree| &in_tree.volume_id);
        VolumeId::from_handle(csi.or(in_tree)?).ok()
    }
}

#[cfg(test)]
impl NodeObject {
    /// Returns a Node as the API server would return it.
    pub(crate) fn with(name: &str, provider_id: &str, labels: &[(&str, &str)]) -> Self {
        let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
        let metadata = serde_json::json!({ "name": name, "uid": format!("uid-of-{name}"), "labels": labels });
        let node = serde_json::json!({ "metadata": metadata, "spec": { "providerID": provider_id } });
        serde_json::from_value(node).unwrap()
    }
}

impl<K: Resource<DynamicType = ()>, S> Resource for Slim<K, S> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind(kind: &()) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &()) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &()) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &()) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Keeps an object's name, uid, version and labels. The managed fields would use more memory than all the rest.
fn kept<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kept {
        name: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        labels: Option<BTreeMap<String, String>>,
    }
    let Kept { name, uid, resource_version, labels } = Kept::deserialize(deserializer)?;
    Ok(ObjectMeta { name, uid, resource_version, labels, ..ObjectMeta::default() })
}

pub(crate) fn taint_key(taint: &Value) -> &str {
    taint.get("key").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deserializer_skips_unused_parts_of_an_object() {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": "a", "uid": "u", "resourceVersion": "7", "labels": { "a": "b" },
                "managedFields": [{ "manager": "kubelet", "fieldsV1": { "f:metadata": {} } }],
            },
            "spec": { "podCIDR": "10.0.0.0/24", "taints": [{ "key": "k", "effect": "NoSchedule", "later": 1 }] },
            "status": { "images": [{ "names": ["x"] }] },
        });
        let node: NodeObject = serde_json::from_value(node).unwrap();
        assert_eq!(node.metadata.managed_fields, None);
        assert_eq!((node.name(), node.label("a"), node.metadata.uid.as_deref()), ("a", Some("b"), Some("u")));
        assert_eq!(node.spec.taints.unwrap()[0]["later"], 1, "unknown fields of taints are compared too");
        assert_eq!(NodeObject::url_path(&(), None), "/api/v1/nodes");
        assert_eq!(AttachmentObject::url_path(&(), None), "/apis/storage.k8s.io/v1/volumeattachments");
        assert_eq!(VolumeObject::url_path(&(), None), "/api/v1/persistentvolumes");
    }

    fn volume(spec: Value) -> Option<String> {
        let object: VolumeObject =
            serde_json::from_value(json!({ "metadata": { "name": "pv" }, "spec": spec })).unwrap();
        object.ebs_volume(&DriverName::default()).map(|id| id.to_string())
    }

    /// The driver owns the volumes of PersistentVolumes that name this driver or the in-tree plug-in.
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
