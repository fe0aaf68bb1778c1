use std::collections::HashMap;
use std::num::NonZeroU32;

use ebs_cloud::ModifySpec;
use ebs_ec2::VolumeType;

use super::{
    ClaimNames, Key, PV_NAME_KEY, PVC_NAME_KEY, PVC_NAMESPACE_KEY, ParameterError, Sorted, TagTemplate,
    VolumeParameters, iops_request, keys,
};

/// The parameters of a VolumeAttributesClass. `Some(None)` is a key without a value, which unsets the value of the
/// StorageClass but does not change an existing volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MutableParameters {
    volume_type: Option<Option<VolumeType>>,
    pub(super) iops: Option<Option<NonZeroU32>>,
    iops_per_gib: Option<Option<NonZeroU32>>,
    pub(super) throughput: Option<Option<NonZeroU32>>,
    auto_iops_on_modify: Option<Option<bool>>,
    /// Names for templates. Empty when a volume is created: the provisioner then adds them to the StorageClass
    /// parameters.
    pub claim: ClaimNames,
    pub tags: Vec<TagTemplate>,
    /// The keys of tags to delete.
    pub deletions: Vec<String>,
}

impl MutableParameters {
    /// Parses the `mutable_parameters` of CreateVolume or ControllerModifyVolume, or the volume modifier's parameters.
    pub fn parse(map: &HashMap<String, String>) -> Result<Self, ParameterError> {
        let mut sorted = Sorted::parse(map)?;
        let mut read = Self {
            tags: std::mem::take(&mut sorted.tags),
            deletions: std::mem::take(&mut sorted.deletions),
            ..Self::default()
        };
        sorted.set_in(&mut read, KEYS)?;
        Ok(read)
    }

    /// Returns every key, without tags.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        KEYS.iter().map(|key| key.name)
    }

    /// Overrides the parameters of the StorageClass, key by key. Does not merge tags.
    pub fn override_in(&self, parameters: &mut VolumeParameters) {
        fn replace<T: Clone>(value: &mut T, with: Option<&T>) {
            if let Some(with) = with {
                value.clone_from(with);
            }
        }
        replace(&mut parameters.volume_type, self.volume_type.as_ref());
        replace(&mut parameters.iops, self.iops.as_ref());
        replace(&mut parameters.iops_per_gib, self.iops_per_gib.as_ref());
        replace(&mut parameters.throughput, self.throughput.as_ref());
        replace(&mut parameters.auto_iops_on_modify, self.auto_iops_on_modify.as_ref());
    }

    /// Returns the changes to an existing volume, without tags.
    pub fn properties(&self) -> Result<ModifySpec, ParameterError> {
        Ok(ModifySpec {
            volume_type: self.volume_type.clone().flatten(),
            iops: iops_request(self.iops.flatten(), self.iops_per_gib())?,
            auto_iops: self.auto_iops_on_modify(),
            throughput: self.throughput.flatten(),
            ..ModifySpec::default()
        })
    }

    /// Returns the IOPS for each GiB, which the driver records in a tag.
    pub fn iops_per_gib(&self) -> Option<NonZeroU32> {
        self.iops_per_gib.flatten()
    }

    /// Returns whether a modification may raise IOPS in proportion to the size. The driver records the value in a tag.
    pub fn auto_iops_on_modify(&self) -> Option<bool> {
        self.auto_iops_on_modify.flatten()
    }
}

keys! { MutableParameters;
    "type" => |p, e| p.volume_type = Some(e.volume_type());
    // This key is parsed after `type`, because entries are sorted.
    "volumeType" => |p, e| p.volume_type = p.volume_type.take().or(Some(e.volume_type()));
    "iops" => |p, e| p.iops = Some(e.positive()?);
    "iopsPerGB" => |p, e| p.iops_per_gib = Some(e.positive()?);
    "allowAutoIOPSIncreaseOnModify" => |p, e| p.auto_iops_on_modify = Some(e.boolean()?);
    "throughput" => |p, e| p.throughput = Some(e.positive()?);
    PVC_NAME_KEY => |p, e| p.claim.pvc_name = e.value.to_owned();
    PVC_NAMESPACE_KEY => |p, e| p.claim.pvc_namespace = e.value.to_owned();
    PV_NAME_KEY => |p, e| p.claim.pv_name = e.value.to_owned();
}
