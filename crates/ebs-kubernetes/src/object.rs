//! The parts of objects that the driver reads. The deserializer skips the rest, so it uses no memory: a Node lists the
//! images of its machine, and every object its managed fields.

use std::borrow::Cow;
use std::marker::PhantomData;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A Node with its taints.
pub(crate) type NodeObject = Slim<Node, NodeSpec>;

/// A VolumeAttachment with its driver and node.
pub(crate) type AttachmentObject = Slim<VolumeAttachment, AttachmentSpec>;

/// An object of kind `K`, with only its identity and `S`.
#[derive(Debug, Clone, Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de>"))]
pub(crate) struct Slim<K, S> {
    /// Name, uid and version.
    #[serde(deserialize_with = "identity")]
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: S,
    #[serde(skip)]
    kind: PhantomData<fn() -> K>,
}

/// Part of a Node's specification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct NodeSpec {
    /// As the server wrote them. A patch compares the whole taints, including fields that this version does not know.
    #[serde(default)]
    pub(crate) taints: Option<Vec<Value>>,
}

/// Part of a VolumeAttachment's specification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AttachmentSpec {
    /// The driver that attaches.
    pub(crate) attacher: String,
    /// The node to which the volume is attached.
    pub(crate) node_name: String,
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

fn identity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Identity {
        name: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
    }
    let Identity { name, uid, resource_version } = Identity::deserialize(deserializer)?;
    Ok(ObjectMeta { name, uid, resource_version, ..ObjectMeta::default() })
}

/// Returns the key of a taint, or an empty string if it has no key.
pub(crate) fn taint_key(taint: &Value) -> &str {
    taint.get("key").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_parts_of_an_object_are_skipped() {
        let node = serde_json::json!({
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
        assert_eq!(node.metadata.labels, None);
        assert_eq!((node.metadata.name.as_deref(), node.metadata.uid.as_deref()), (Some("a"), Some("u")));
        assert_eq!(node.spec.taints.unwrap()[0]["later"], 1, "unknown fields of taints are compared too");
        assert_eq!(NodeObject::url_path(&(), None), "/api/v1/nodes");
        assert_eq!(AttachmentObject::url_path(&(), None), "/apis/storage.k8s.io/v1/volumeattachments");
    }
}
