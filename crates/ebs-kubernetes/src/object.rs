//! The parts of objects that are read here. What else an object has is not kept: a Node lists the images of its machine.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{Api, ApiResource, NotUsed, Object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A Node with its taints.
pub(crate) type NodeObject = Object<NodeSpec, NotUsed>;

/// A VolumeAttachment with what says whose it is.
pub(crate) type AttachmentObject = Object<AttachmentSpec, NotUsed>;

/// Part of a Node's specification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeSpec {
    /// As the server wrote them: a patch compares them as a whole, fields included that this version does not know.
    #[serde(default)]
    pub(crate) taints: Option<Vec<Value>>,
}

/// Part of a VolumeAttachment's specification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AttachmentSpec {
    /// The driver that attaches.
    pub(crate) attacher: String,
    /// The node that it is attached to.
    pub(crate) node_name: String,
}

/// All nodes, by their taints.
pub(crate) fn nodes(client: kube::Client) -> Api<NodeObject> {
    Api::all_with(client, &ApiResource::erase::<Node>(&()))
}

/// All attachments of the cluster, by whose they are.
pub(crate) fn attachments(client: kube::Client) -> Api<AttachmentObject> {
    Api::all_with(client, &ApiResource::erase::<VolumeAttachment>(&()))
}

/// What a taint is called; a taint without a key has no name.
pub(crate) fn taint_key(taint: &Value) -> &str {
    taint.get("key").and_then(Value::as_str).unwrap_or_default()
}
