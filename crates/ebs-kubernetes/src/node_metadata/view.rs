//! The small part of Node objects that the driver reads, which keeps watches and lists small in memory.

use std::collections::BTreeMap;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

/// A Node: its labels and its provider id.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct NodeView {
    #[serde(deserialize_with = "kept")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: NodeSpecView,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct NodeSpecView {
    #[serde(rename = "providerID")]
    pub(crate) provider_id: String,
}

impl NodeView {
    pub(crate) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns a Node as the API server would return it, for tests.
    #[cfg(test)]
    pub(crate) fn with(name: &str, provider_id: &str, labels: &[(&str, &str)]) -> Self {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Self {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                uid: Some(format!("uid-of-{name}")),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            spec: NodeSpecView { provider_id: provider_id.to_owned() },
        }
    }
}

/// The labels that the metadata labeler writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabelKeys {
    /// Label with the number of network interfaces of the instance.
    pub(crate) interfaces: String,
    /// Label with the number of volumes that the driver does not manage.
    pub(crate) volumes: String,
}

impl LabelKeys {
    pub(crate) fn of(driver: &ebs_ec2::DriverName) -> Self {
        Self { interfaces: format!("{driver}/enis-count"), volumes: format!("{driver}/non-csi-ebs-volumes-count") }
    }
}

/// Keeps name, uid, version and labels of an object's metadata. The managed fields use more memory than all the rest.
pub(crate) fn kept<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
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

impl k8s_openapi::Resource for NodeView {
    const API_VERSION: &'static str = "v1";
    const GROUP: &'static str = "";
    const KIND: &'static str = "Node";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "nodes";
    type Scope = ClusterResourceScope;
}

impl k8s_openapi::Metadata for NodeView {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
