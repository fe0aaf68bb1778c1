//! Ids of EC2 objects and of nodes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::HyperPodNode;

/// A text that cannot be an id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not {wanted}")]
pub struct IdError {
    given: String,
    wanted: &'static str,
}

impl IdError {
    /// This text is not what was wanted.
    pub(crate) fn new(given: &str, wanted: &'static str) -> Self {
        Self { given: given.to_owned(), wanted }
    }
}

/// EC2 ids are a prefix and 8 or 17 hexadecimal digits. EC2 stays the judge of the number: an id that is refused
/// here names nothing (a delete of it succeeds), so the check must never be stricter than a future EC2.
fn is_ec2_id(prefix: &str, text: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| {
        (1..=64).contains(&rest.len()) && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    })
}

/// A name of a zone: 1 to 64 lower-case letters, digits and hyphens.
fn is_zone_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// A text that was checked once, when it was parsed.
macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $wanted:literal, $accepts:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            #[doc = concat!("Accepts ", $wanted, ", and nothing around it.")]
            ///
            /// # Errors
            /// [`IdError`] names the text and what was wanted.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                let accepts: fn(&str) -> bool = $accepts;
                if accepts(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(IdError { given: text.to_owned(), wanted: $wanted })
                }
            }

            /// As EC2 writes it.
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
    /// An EBS volume, `vol-…`.
    VolumeId, "a volume id (vol-…)", |text| is_ec2_id("vol-", text)
);
checked_text!(
    /// An EBS snapshot, `snap-…`.
    SnapshotId, "a snapshot id (snap-…)", |text| is_ec2_id("snap-", text)
);
checked_text!(
    /// An EC2 instance, `i-…`.
    InstanceId, "an instance id (i-…)", |text| is_ec2_id("i-", text)
);
checked_text!(
    /// An availability zone by name, `us-west-2a`: what Kubernetes schedules by. Differs between accounts.
    ZoneName, "a zone name (us-west-2a)", is_zone_name
);
checked_text!(
    /// An availability zone by id, `usw2-az2`: the same place in every account.
    ZoneId, "a zone id (usw2-az2)", is_zone_name
);

impl VolumeId {
    /// A CSI volume handle: a plain id, or an old form that contains one, such as `aws://us-west-2a/vol-0abc`.
    ///
    /// # Errors
    /// [`IdError`] when the last path segment is no volume id: such a handle names nothing in EC2.
    pub fn from_handle(handle: &str) -> Result<Self, IdError> {
        Self::parse(last_segment(handle)).map_err(|e| IdError { given: handle.to_owned(), ..e })
    }

    /// The id without its hyphens, as an EBS NVMe device reports it in its serial number (`vol0abc…`).
    pub fn serial(&self) -> String {
        self.0.replace('-', "")
    }

    /// The volume whose NVMe serial number this is.
    ///
    /// # Errors
    /// [`IdError`] when the serial is not `vol` and the rest of an id (an instance-store disk, for example).
    pub fn from_serial(serial: &str) -> Result<Self, IdError> {
        let wanted = "an EBS serial number (vol…)";
        let rest = serial.strip_prefix("vol").ok_or_else(|| IdError { given: serial.to_owned(), wanted })?;
        let rest = rest.strip_prefix('-').unwrap_or(rest);
        Self::parse(&format!("vol-{rest}")).map_err(|_| IdError { given: serial.to_owned(), wanted })
    }
}

impl SnapshotId {
    /// A CSI snapshot handle: a plain id, or an old form whose last path segment is one.
    ///
    /// # Errors
    /// [`IdError`] when the last path segment is no snapshot id.
    pub fn from_handle(handle: &str) -> Result<Self, IdError> {
        Self::parse(last_segment(handle)).map_err(|e| IdError { given: handle.to_owned(), ..e })
    }
}

fn last_segment(handle: &str) -> &str {
    handle.rsplit('/').next().unwrap_or(handle)
}

/// A node as the orchestrator names it to us: what NodeGetInfo reported.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeId {
    /// An EC2 instance.
    Instance(InstanceId),
    /// A node of a SageMaker HyperPod cluster.
    HyperPod(HyperPodNode),
}

impl NodeId {
    /// Parses what the orchestrator sends as `node_id`.
    ///
    /// # Errors
    /// [`IdError`] when the text cannot be a node of this driver.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        if text.starts_with("hyperpod-") {
            return HyperPodNode::parse(text).map(Self::HyperPod);
        }
        InstanceId::parse(text).map(Self::Instance)
    }

    /// The EC2 instance behind the node. That of a HyperPod node is in an account that is not ours.
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

    /// An EC2 id is its prefix and lower-case letters and digits; anything else names nothing.
    #[test]
    fn an_id_is_its_prefix_and_lower_case_alphanumerics() {
        for good in ["vol-0123456789abcdef0", "vol-12345678"] {
            assert_eq!(VolumeId::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "vol-", "vol", "VOL-12345678", "snap-12345678", "vol-12/34", "vol-..", " vol-1", "vol-1\n"] {
            assert!(VolumeId::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }

    /// A handle of the in-tree plug-in names the volume in its last segment.
    #[test]
    fn an_in_tree_handle_names_the_volume_in_its_last_segment() {
        let id = VolumeId::from_handle("aws://us-west-2a/vol-0abc").unwrap();
        assert_eq!(id.as_str(), "vol-0abc");
        assert!(VolumeId::from_handle("aws://us-west-2a/").is_err());
    }

    /// The serial number of an EBS disk is the volume id without its hyphen.
    #[test]
    fn a_serial_is_the_volume_id_without_its_hyphen() {
        let id = VolumeId::parse("vol-0abc").unwrap();
        assert_eq!(id.serial(), "vol0abc");
        assert_eq!(VolumeId::from_serial("vol0abc").unwrap(), id);
        assert_eq!(VolumeId::from_serial("vol-0abc").unwrap(), id);
        assert!(VolumeId::from_serial("AWS1234").is_err());
    }

    /// A node id is an instance or `hyperpod-<cluster>-i-…`, clusters with dashes included; anything else is refused.
    #[test]
    fn a_node_is_an_instance_or_a_hyperpod_node() {
        assert!(matches!(NodeId::parse("i-0abc"), Ok(NodeId::Instance(_))));
        let node = NodeId::parse("hyperpod-my-cluster-i-0abc").unwrap();
        assert!(matches!(node, NodeId::HyperPod(_)));
        assert_eq!((node.instance().as_str(), node.to_string().as_str()), ("i-0abc", "hyperpod-my-cluster-i-0abc"));
        for bad in ["", "hyperpod-", "hyperpod-i-0abc", "hyperpod-a-b", "hyper-a-i-0abc", "vol-0abc"] {
            assert!(NodeId::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
