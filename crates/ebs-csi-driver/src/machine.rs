use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ebs_ec2::DriverName;
use ebs_kubernetes::{Cluster, NodeMetadataError, NodeSource};
use ebs_metadata::{Imds, Machine, NoMetadata, Source, SourceKind, Unusable};

use crate::environment::environment;

/// First pause before the driver checks again whether this machine is an EC2 instance. Later pauses are longer.
const FIRST_DOUBT: Duration = Duration::from_secs(5);
/// Longest pause between two checks whether this machine is an EC2 instance.
const LAST_DOUBT: Duration = Duration::from_mins(2);

#[derive(Debug, Clone)]
pub(crate) struct Sources {
    pub(crate) kinds: Vec<SourceKind>,
    pub(crate) driver: DriverName,
    /// The cluster to ask, or the reason why no cluster is available.
    pub(crate) cluster: Result<Cluster, String>,
}

/// Where the process runs. A process that needs only its region asks no source if the region is configured.
pub(crate) enum Location {
    Region(String),
    Instance(Arc<Machine>),
    NotEc2 { name: String, what: String },
}

impl Location {
    pub(crate) fn region(&self) -> Option<String> {
        match self {
            Self::Region(region) => Some(region.clone()),
            Self::Instance(machine) => Some(machine.metadata().region.clone()),
            Self::NotEc2 { .. } => environment("AWS_REGION"),
        }
    }
}

impl Sources {
    /// Asks the metadata sources in order. The error gives the reason for the failure of each source.
    pub(crate) async fn machine(&self) -> Result<Machine, NoMetadata> {
        let machine = Machine::find(self.list(), environment("AWS_REGION")).await?;
        let metadata = machine.metadata();
        tracing::info!(
            source = machine.source().map(SourceKind::as_str),
            instance = %metadata.node,
            instance_type = metadata.instance_type,
            region = metadata.region,
            zone = %metadata.zone,
            "machine identified"
        );
        Ok(machine)
    }

    /// Returns the region, for a process without a node service.
    pub(crate) async fn region(&self) -> anyhow::Result<Location> {
        if let Some(region) = environment("AWS_REGION") {
            return Ok(Location::Region(region));
        }
        let machine = self.machine().await.context("determine the AWS region without AWS_REGION")?;
        Ok(Location::Instance(Arc::new(machine)))
    }

    /// Identifies this machine for its node service.
    pub(crate) async fn node(&self) -> anyhow::Result<Location> {
        let unknown = match self.machine().await {
            Ok(machine) => return Ok(Location::Instance(Arc::new(machine))),
            Err(unknown) => unknown,
        };
        let Some(what) = unknown.foreign().map(str::to_owned) else {
            return Err(unknown).context("identify this machine for the node service");
        };
        let name = environment("CSI_NODE_NAME").unwrap_or_default();
        tracing::warn!(
            node = name,
            what,
            reason = %unknown,
            "this machine is not an EC2 instance: EBS volumes cannot be attached to it, and its node service is idle"
        );
        Ok(Location::NotEc2 { name, what })
    }

    /// Waits until a machine that was not recognised as an EC2 instance proves to be one. (The metadata service may
    /// have been temporarily unavailable, for example.) Then returns an error.
    pub(crate) async fn until_instance(self) -> anyhow::Error {
        let mut pause = FIRST_DOUBT;
        loop {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_DOUBT);
            if let Ok(machine) = Machine::find(self.list(), environment("AWS_REGION")).await {
                let instance = machine.metadata().node.to_string();
                return anyhow::anyhow!(
                    "this machine is the EC2 instance {instance}: exiting, so that the next run starts its node service"
                );
            }
        }
    }

    fn list(&self) -> Vec<Box<dyn Source>> {
        self.kinds.iter().map(|kind| self.source(*kind)).collect()
    }

    fn source(&self, kind: SourceKind) -> Box<dyn Source> {
        if kind == SourceKind::Imds {
            return match Imds::connect() {
                Ok(imds) => Box::new(imds),
                Err(error) => Box::new(Unusable::new(kind, error)),
            };
        }
        let Some(name) = environment("CSI_NODE_NAME") else {
            return Box::new(Unusable::new(kind, NodeMetadataError::NoName));
        };
        match &self.cluster {
            Ok(cluster) if kind == SourceKind::MetadataLabeler => {
                Box::new(NodeSource::metadata_labeler(cluster.client(), &name, self.driver.clone()))
            }
            Ok(cluster) => Box::new(NodeSource::kubernetes(cluster.client(), &name, self.driver.clone())),
            Err(reason) => Box::new(Unusable::new(kind, NodeMetadataError::NoCluster { reason: reason.clone() })),
        }
    }
}
