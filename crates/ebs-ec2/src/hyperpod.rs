//! The ids of SageMaker HyperPod nodes.

use std::fmt;

use crate::{IdError, InstanceId};

/// A node of a SageMaker HyperPod cluster, `hyperpod-<cluster>-i-<digits>`: an instance in another account, which the
/// driver reaches through the cluster. The cluster's name may contain dashes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HyperPodNode {
    cluster: String,
    instance: InstanceId,
}

impl HyperPodNode {
    /// Parses the `node_id` that the orchestrator sends. The cluster part has 1 to 63 letters, digits and inner dashes.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let refuse = || IdError::new(text, "a HyperPod node id (hyperpod-<cluster>-i-…)");
        let rest = text.strip_prefix("hyperpod-").ok_or_else(refuse)?;
        let (before, digits) = rest.rsplit_once('-').ok_or_else(refuse)?;
        let (cluster, prefix) = before.rsplit_once('-').ok_or_else(refuse)?;
        let instance = InstanceId::parse(&format!("{prefix}-{digits}")).map_err(|_| refuse())?;
        if is_cluster(cluster) { Ok(Self { cluster: cluster.to_owned(), instance }) } else { Err(refuse()) }
    }

    /// Returns the cluster's name or id, as it appears at the end of its ARN.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Returns the instance behind the node. EC2 does not describe it to our account.
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }
}

impl fmt::Display for HyperPodNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hyperpod-{}-{}", self.cluster, self.instance)
    }
}

/// Returns true for a cluster name or id that SageMaker permits. Such a text cannot contain an ARN's separators.
fn is_cluster(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hyperpod_node_is_parsed_with_and_without_dashes_in_cluster() {
        for (text, cluster, instance) in [
            ("hyperpod-abc123def456-i-0123456789abcdef0", "abc123def456", "i-0123456789abcdef0"),
            ("hyperpod-my-big-Cluster-i-0abc", "my-big-Cluster", "i-0abc"),
            ("hyperpod-a-i-i-0abc", "a-i", "i-0abc"),
        ] {
            let node = HyperPodNode::parse(text).unwrap();
            assert_eq!((node.cluster(), node.instance().as_str()), (cluster, instance));
            assert_eq!(node.to_string(), text);
        }
    }
}
