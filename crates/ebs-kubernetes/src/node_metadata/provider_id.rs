//! Finds a Node's instance by its `spec.providerID`.

use ebs_ec2::{HyperPodNode, NodeId};

/// Why a provider id does not name an instance.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderIdError {
    #[error("spec.providerID is empty; check that the cluster's cloud controller manager runs")]
    Empty,
    /// The machine is not an EC2 instance: it is a Fargate or hybrid node, or belongs to another cloud.
    #[error("spec.providerID {given:?} does not name an EC2 instance")]
    Foreign { given: String },
}

/// Returns the instance or HyperPod node that a provider id names in the last part of its path.
///
/// If the id has a scheme other than `aws`, the instance id must have as many hexadecimal digits as EC2's, because
/// machines of other clouds may be called `i-anything`.
pub fn node_of(provider_id: &str) -> Result<NodeId, ProviderIdError> {
    if provider_id.trim().is_empty() {
        return Err(ProviderIdError::Empty);
    }
    let foreign = || ProviderIdError::Foreign { given: provider_id.to_owned() };
    let (scheme, path) = provider_id.split_once("://").unwrap_or(("aws", provider_id));
    let last = path.rsplit('/').next().unwrap_or(path);
    if scheme == "aws" && last.starts_with("hyperpod-") {
        return HyperPodNode::parse(last).map(NodeId::HyperPod).map_err(|_| foreign());
    }
    match NodeId::parse(last) {
        Ok(node) if scheme == "aws" || has_digits_of_ec2(last) => Ok(node),
        _ => Err(foreign()),
    }
}

fn has_digits_of_ec2(id: &str) -> bool {
    id.strip_prefix("i-").is_some_and(|digits| {
        [8, 17].contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The whole last part must be an instance id. A last part that only ends like an instance id does not count.
    #[test]
    fn last_part_of_provider_id_names_the_instance() {
        for (given, instance) in [
            ("aws:///us-west-2a/i-0abc", "i-0abc"),
            ("aws://us-west-2a/i-0123456789abcdef0", "i-0123456789abcdef0"),
            ("us-west-2a/i-0abc", "i-0abc"),
            ("i-0abc", "i-0abc"),
            ("aws:///usw2-az2/sagemaker/cluster/hyperpod-abc-i-0abc", "hyperpod-abc-i-0abc"),
            ("aws:///usw2-az2/sagemaker/cluster/hyperpod-my-cluster-i-0abc", "hyperpod-my-cluster-i-0abc"),
            ("k3s://i-0123456789abcdef0", "i-0123456789abcdef0"),
        ] {
            assert_eq!(node_of(given).unwrap().to_string(), instance, "{given}");
        }
        for given in [
            "eks-hybrid:///us-west-2/cluster/mi-0123456789abcdef0",
            "aws:///us-west-2a/0123456789-abc/fargate-ip-10-0-0-1.us-west-2.compute.internal",
            "gce://project/us-east1-b/i-can",
            "azure:///subscriptions/a/virtualMachineScaleSets/b/virtualMachines/0",
            "k3s://node-i-0123456789abcdef0",
            "aws:///us-west-2a/s.i-0abc",
            "aws:///us-west-2a/",
            "aws:///us-west-2a/hyperpod-abc",
            "kind://docker/kind/kind-control-plane",
        ] {
            assert_eq!(node_of(given), Err(ProviderIdError::Foreign { given: given.to_owned() }));
        }
        assert_eq!(node_of(" "), Err(ProviderIdError::Empty));
    }

    proptest! {
        #[test]
        fn provider_id_is_parsed_or_rejected_without_panic(text in ".{0,80}") {
            if let Ok(node) = node_of(&text) {
                prop_assert!(text.ends_with(&node.to_string()));
                let before = &text[..text.len() - node.to_string().len()];
                prop_assert!(before.is_empty() || before.ends_with('/'), "{text:?}");
            }
        }
    }
}
