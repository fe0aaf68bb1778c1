//! The ids of EC2 objects and of nodes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::HyperPodNode;

/// Reports that a text is not a valid id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not {wanted}")]
pub struct IdError {
    given: String,
    wanted: &'static str,
}

impl IdError {
    pub(crate) fn new(given: &str, wanted: &'static str) -> Self {
        Self { given: given.to_owned(), wanted }
    }
}

/// Checks the prefix and the characters of an EC2 id (today 8 or 17 hexadecimal digits). It must accept every id that a
/// future EC2 may assign, because the driver reports success when it is asked to delete an object with a rejected id.
fn is_ec2_id(prefix: &str, text: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| {
        (1..=64).contains(&rest.len()) && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    })
}

fn is_zone_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Defines a type for texts that are checked once, when they are parsed.
macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $wanted:literal, $accepts:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            #[doc = concat!("Accepts ", $wanted, ", and nothing around it.")]
            pub fn parse(text: &str) -> Result<Self, IdError> {
                let accepts: fn(&str) -> bool = $accepts;
                if accepts(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(IdError { given: text.to_owned(), wanted: $wanted })
                }
            }

            /// Returns the text in EC2's spelling.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(checked: $name) -> String {
                checked.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

checked_text!(
    /// The id of an EBS volume, `vol-…`.
    VolumeId, "a volume id (vol-…)", |text| is_ec2_id("vol-", text)
);
checked_text!(
    /// The id of an EBS snapshot, `snap-…`.
    SnapshotId, "a snapshot id (snap-…)", |text| is_ec2_id("snap-", text)
);
checked_text!(
    /// The id of an EC2 instance, `i-…`.
    InstanceId, "an instance id (i-…)", |text| is_ec2_id("i-", text)
);
checked_text!(
    /// The name of an availability zone, `us-west-2a`. It can mean different zones in different accounts.
    ZoneName, "a zone name (us-west-2a)", is_zone_name
);
checked_text!(
    /// The id of an availability zone, `usw2-az2`. It means the same zone in every account.
    ZoneId, "a zone id (usw2-az2)", is_zone_name
);

impl VolumeId {
    /// Parses a CSI volume handle: a plain id, or an old form that contains one, such as `aws://us-west-2a/vol-0abc`.
    pub fn from_handle(handle: &str) -> Result<Self, IdError> {
        Self::parse(last_segment(handle)).map_err(|e| IdError { given: handle.to_owned(), ..e })
    }

    /// Returns the id without its hyphen, as the volume's NVMe device reports it in its serial number (`vol0abc…`).
    pub fn serial(&self) -> String {
        self.0.replace('-', "")
    }

    /// Parses the NVMe serial number of a volume. Rejects the serial number of an instance-store disk.
    pub fn from_serial(serial: &str) -> Result<Self, IdError> {
        let wanted = "an EBS serial number (vol…)";
        let rest = serial.strip_prefix("vol").ok_or_else(|| IdError { given: serial.to_owned(), wanted })?;
        let rest = rest.strip_prefix('-').unwrap_or(rest);
        Self::parse(&format!("vol-{rest}")).map_err(|_| IdError { given: serial.to_owned(), wanted })
    }
}

impl SnapshotId {
    /// Parses a CSI snapshot handle: a plain id, or an old form that has an id as its last path segment.
    pub fn from_handle(handle: &str) -> Result<Self, IdError> {
        Self::parse(last_segment(handle)).map_err(|e| IdError { given: handle.to_owned(), ..e })
    }
}

fn last_segment(handle: &str) -> &str {
    handle.rsplit('/').next().unwrap_or(handle)
}

/// The id of a node, as the orchestrator sends it and NodeGetInfo reported it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeId {
    /// An EC2 instance.
    Instance(InstanceId),
    /// A node of a SageMaker HyperPod cluster.
    HyperPod(HyperPodNode),
}

impl NodeId {
    /// Parses the `node_id` that the orchestrator sends.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        if text.starts_with("hyperpod-") {
            return HyperPodNode::parse(text).map(Self::HyperPod);
        }
        InstanceId::parse(text).map(Self::Instance)
    }

    /// Returns the EC2 instance behind the node. The instance of a HyperPod node is in another account.
    pub fn instance(&self) -> &InstanceId {
        match self {
            Self::Instance(id) => id,
            Self::HyperPod(node) => node.instance(),
        }
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance(id) => id.fmt(f),
            Self::HyperPod(node) => node.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_number_is_volume_id_without_hyphen() {
        let id = VolumeId::parse("vol-0abc").unwrap();
        assert_eq!(id.serial(), "vol0abc");
        assert_eq!(VolumeId::from_serial("vol0abc").unwrap(), id);
        assert_eq!(VolumeId::from_serial("vol-0abc").unwrap(), id);
        assert!(VolumeId::from_serial("AWS1234").is_err());
    }

    #[test]
    fn node_id_is_an_instance_or_a_hyperpod_node() {
        assert!(matches!(NodeId::parse("i-0abc"), Ok(NodeId::Instance(_))));
        let node = NodeId::parse("hyperpod-my-cluster-i-0abc").unwrap();
        assert!(matches!(node, NodeId::HyperPod(_)));
        assert_eq!((node.instance().as_str(), node.to_string().as_str()), ("i-0abc", "hyperpod-my-cluster-i-0abc"));
        for bad in ["", "hyperpod-", "hyperpod-i-0abc", "hyperpod-a-b", "hyper-a-i-0abc", "vol-0abc"] {
            assert!(NodeId::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
