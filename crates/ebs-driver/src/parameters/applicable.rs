//! Drops parameters of a StorageClass that do not apply to a request.
//!
//! A class is shared by empty volumes, restores and clones, and by file systems and raw block volumes. A parameter
//! without a meaning for the requested volume is left out, with one line in the log. The driver refuses a class that
//! contradicts itself, and a VolumeAttributesClass that asks for properties that the type does not have.

use std::fmt;

use ebs_ec2::VolumeType;
use ebs_mounter::FormatOptions;

use super::{MutableParameters, VolumeParameters};
use crate::capability::Access;
use crate::context::FormatKey;

/// A parameter of the class that is left out of a request, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LeftOut {
    key: &'static str,
    why: Why,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    /// The volume type has no such property.
    Type(VolumeType),
    /// The VolumeAttributesClass sets the same property with this other parameter.
    Attributes(&'static str),
    NoSnapshot,
    NoFileSystem,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Type(volume_type) => write!(f, "{} (the type is {volume_type})", self.key),
            Why::Attributes(other) => write!(f, "{} (the VolumeAttributesClass has {other})", self.key),
            Why::NoSnapshot => write!(f, "{} (the volume is not created from a snapshot)", self.key),
            Why::NoFileSystem => write!(f, "{} (it is a raw block volume)", self.key),
        }
    }
}

impl VolumeParameters {
    /// Leaves out the parameters of the StorageClass that have no meaning for this volume. `attributes` have already
    /// overridden the class. They are the claim's own request, so EC2 decides about them.
    ///
    /// `is_restored` is true for a volume from a snapshot. `accesses` are the requested kinds of access.
    pub fn keep_applicable(
        &mut self,
        name: &str,
        attributes: &MutableParameters,
        is_restored: bool,
        accesses: &[Access],
    ) {
        let volume_type = self.volume_type.clone().unwrap_or(VolumeType::Gp3);
        let mut left_out = self.drop_performance(attributes, &volume_type);
        if self.initialization_rate.is_some() && !is_restored {
            self.initialization_rate = None;
            left_out.push(LeftOut { key: "volumeInitializationRate", why: Why::NoSnapshot });
        }
        if accesses.iter().all(|access| *access == Access::Block) {
            let set = FormatKey::ALL.into_iter().filter(|key| key.is_set(&self.format));
            left_out.extend(set.map(|key| LeftOut { key: key.as_str(), why: Why::NoFileSystem }));
            self.format = FormatOptions::default();
        }
        if !left_out.is_empty() {
            let left_out = left_out.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            tracing::warn!(
                volume = name,
                parameters = left_out,
                "ignoring StorageClass parameters that do not apply to this volume"
            );
        }
    }

    fn drop_performance(&mut self, attributes: &MutableParameters, volume_type: &VolumeType) -> Vec<LeftOut> {
        let mut left_out = Vec::new();
        let mut note = |key, why| left_out.push(LeftOut { key, why });
        let [has_iops, has_throughput] = [volume_type.has_iops_to_choose(), volume_type.has_throughput_to_choose()];
        let of_type = || Why::Type(volume_type.clone());
        let [by_number, by_gib] = [attributes.sets_iops(), attributes.sets_iops_per_gib()];
        // A class with both parameters contradicts itself, for every type.
        let is_clear = self.iops.is_none() || self.iops_per_gib.is_none() || by_number || by_gib;
        if self.iops.is_some() && !by_number && is_clear {
            if by_gib {
                self.iops = None;
                note("iops", Why::Attributes("iopsPerGB"));
            } else if !has_iops {
                self.iops = None;
                note("iops", of_type());
            }
        }
        if self.iops_per_gib.is_some() && !by_gib && is_clear {
            if by_number {
                self.iops_per_gib = None;
                note("iopsPerGB", Why::Attributes("iops"));
            } else if !has_iops {
                self.iops_per_gib = None;
                note("iopsPerGB", of_type());
            }
        }
        if self.throughput.is_some() && !attributes.sets_throughput() && !has_throughput {
            self.throughput = None;
            note("throughput", of_type());
        }
        left_out
    }
}
