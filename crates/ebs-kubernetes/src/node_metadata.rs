//! The metadata sources `kubernetes` and `metadata-labeler`, which read the metadata of this machine from its Node.

mod error;
mod facts;
mod provider_id;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ebs_ec2::DriverName;
use ebs_metadata::{Answer, NodeMetadata, Source, SourceError, SourceKind};
use kube::{Api, Client};
use tokio::time::Instant;

pub use error::NodeMetadataError;
pub use provider_id::{ProviderIdError, node_of};

pub(crate) use facts::{LabelKeys, described_instance};

use facts::Facts;

use crate::object::NodeObject;

/// How long to keep reading a Node that lacks a value, because another process may be about to write it.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause before the second read. Each later pause is 1.5 times as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const READ_WITHIN: Duration = Duration::from_secs(5);
/// The shortest time between two reads by the source `kubernetes`. Without it, kubelets could cause a read every 10 s.
const KUBERNETES_AGE: Duration = Duration::from_mins(5);

/// This machine's Node object as a source of metadata.
#[derive(Debug)]
pub struct NodeSource {
    nodes: Api<NodeObject>,
    node: String,
    driver: DriverName,
    kind: SourceKind,
    read_at: Mutex<Option<Instant>>,
}

impl NodeSource {
    /// Creates the source `kubernetes`. If labels are missing, it assumes one network interface and no other volumes.
    pub fn kubernetes(client: Client, node: &str, driver: DriverName) -> Self {
        Self::new(client, node, driver, SourceKind::Kubernetes)
    }

    /// Creates the source `metadata-labeler`, which requires the labeler's counts.
    pub fn metadata_labeler(client: Client, node: &str, driver: DriverName) -> Self {
        Self::new(client, node, driver, SourceKind::MetadataLabeler)
    }

    fn new(client: Client, node: &str, driver: DriverName, kind: SourceKind) -> Self {
        Self { nodes: Api::all(client), node: node.to_owned(), driver, kind, read_at: Mutex::default() }
    }

    /// Reads the Node. While the Node lacks a value that may be written soon, reads it again for up to [`PATIENCE`].
    async fn patiently(&self) -> Result<NodeMetadata, NodeMetadataError> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.once().await {
                Ok(Facts { metadata, is_uncounted }) => {
                    self.note(is_uncounted, &metadata);
                    return Ok(metadata);
                }
                Err(error) => error,
            };
            if !error.may_pass() || Instant::now() + pause > deadline {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause = pause * 3 / 2;
        }
    }

    async fn once(&self) -> Result<Facts, NodeMetadataError> {
        let node = || self.node.clone();
        let read = tokio::time::timeout(READ_WITHIN, self.nodes.get_opt(&self.node)).await;
        let read = read.map_err(|_| NodeMetadataError::NoAnswer { node: node(), within: READ_WITHIN })?;
        let view = read.map_err(|error| NodeMetadataError::Unread { node: node(), source: error.into() })?;
        let view = view.ok_or_else(|| NodeMetadataError::NoSuchNode { node: node() })?;
        facts::facts(&view, &self.driver, self.kind)
    }

    fn note(&self, is_uncounted: bool, metadata: &NodeMetadata) {
        let first = self.read_at().replace(Instant::now()).is_none();
        if first && is_uncounted {
            let LabelKeys { interfaces, volumes } = LabelKeys::of(&self.driver);
            tracing::warn!(
                node = self.node,
                instance_type = metadata.instance_type,
                "assuming one network interface and no other volumes, so the attach limit may be too high: the Node \
                 has no labels {interfaces} and {volumes}; run the metadata labeler or set \
                 --reserved-volume-attachments"
            );
        }
    }

    fn read_at(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.read_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, error: NodeMetadataError) -> SourceError {
        let may_pass = matches!(error, NodeMetadataError::NoAnswer { .. });
        SourceError { foreign: error.foreign(), may_pass, ..SourceError::new(self.kind, error) }
    }
}

impl Source for NodeSource {
    fn kind(&self) -> SourceKind {
        self.kind
    }

    fn read(&self) -> Answer<'_> {
        Box::pin(async { self.patiently().await.map_err(|error| self.failed(error)) })
    }

    fn refresh<'a>(&'a self, known: &'a NodeMetadata) -> Answer<'a> {
        Box::pin(async {
            let is_young = self.read_at().is_some_and(|at| at.elapsed() < KUBERNETES_AGE);
            if self.kind == SourceKind::Kubernetes && is_young {
                return Ok(known.clone());
            }
            self.patiently().await.map_err(|error| self.failed(error))
        })
    }
}

#[cfg(test)]
mod tests;
