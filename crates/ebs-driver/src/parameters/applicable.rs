//! Drops parameters of a StorageClass that do not apply to a request, because one class may serve restores and blank
//! volumes, file systems and raw block. The driver still refuses a class that contradicts itself, and a
//! VolumeAttributesClass that asks for properties that the type does not have.

use std::num::NonZeroU32;

use ebs_ec2::VolumeType;
use ebs_mounter::FormatOptions;

use super::{MutableParameters, VolumeParameters};
use crate::capability::Access;
use crate::context::FormatKey;

impl VolumeParameters {
    /// Leaves out the parameters of the StorageClass that have no meaning for this volume. Keeps `attributes`, because
    /// the claim itself requested them. `is_restored` is true for a volume from a snapshot.
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
            left_out.push("volumeInitializationRate (the volume is not created from a snapshot)".to_owned());
        }
        if accesses.iter().all(|access| *access == Access::Block) {
            let set = FormatKey::ALL.into_iter().filter(|key| key.is_set(&self.format));
            left_out.extend(set.map(|key| format!("{} (it is a raw block volume)", key.as_str())));
            self.format = FormatOptions::default();
        }
        if !left_out.is_empty() {
            tracing::warn!(
                volume = name,
                parameters = left_out.join(", "),
                "ignoring StorageClass parameters that do not apply to this volume"
            );
        }
    }

    /// Returns each parameter that it leaves out, with the reason.
    fn drop_performance(&mut self, attributes: &MutableParameters, volume_type: &VolumeType) -> Vec<String> {
        let mut left_out = Vec::new();
        let [has_iops, has_throughput] = [volume_type.has_iops_to_choose(), volume_type.has_throughput_to_choose()];
        let [by_number, by_gib] = [attributes.iops.flatten(), attributes.iops_per_gib()].map(|set| set.is_some());
        // A class that sets both parameters contradicts itself, whatever its type.
        let is_clear = self.iops.is_none() || self.iops_per_gib.is_none() || by_number || by_gib;
        let mut drop_iops =
            |set: &mut Option<NonZeroU32>, key: &str, overridden: bool, (by_other, other): (bool, &str)| {
                let why = if by_other {
                    format!("the VolumeAttributesClass has {other}")
                } else {
                    format!("the type is {volume_type}")
                };
                if set.is_some() && !overridden && is_clear && (by_other || !has_iops) {
                    *set = None;
                    left_out.push(format!("{key} ({why})"));
                }
            };
        drop_iops(&mut self.iops, "iops", by_number, (by_gib, "iopsPerGB"));
        drop_iops(&mut self.iops_per_gib, "iopsPerGB", by_gib, (by_number, "iops"));
        if self.throughput.is_some() && attributes.throughput.flatten().is_none() && !has_throughput {
            self.throughput = None;
            left_out.push(format!("throughput (the type is {volume_type})"));
        }
        left_out
    }
}
