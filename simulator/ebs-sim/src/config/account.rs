//! Settings of the simulated account: encryption, keys, quotas, and missing features of zones.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Oddities;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccountSettings {
    /// Every new volume is encrypted, whatever the request contains.
    pub encrypt_by_default: bool,
    /// The key for volumes without a key: id, alias or ARN. `None`: `alias/aws/ebs`.
    pub default_kms_key: Option<String>,
    /// Keys that are disabled, pending deletion or missing: id, alias or ARN. A volume that needs one of them is
    /// accepted and then disappears.
    pub unusable_kms_keys: Vec<String>,
    /// ARN of the Outpost of the machine's own instance. `None`: it runs in the region.
    pub machine_outpost: Option<String>,
    /// Volume types that a zone lacks, by the zone's name. Local Zones always lack io2 and standard.
    pub missing_volume_types: BTreeMap<String, Vec<String>>,
    /// Behaviour of EC2 in some places or at some times.
    pub oddities: Oddities,
    pub quotas: Quotas,
}

/// Quotas by volume type and others. Missing entries are unlimited. The default is unlimited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    /// Maximum TiB of all volumes of a type.
    pub storage_tib: BTreeMap<String, u64>,
    /// Maximum IOPS of all volumes of a type.
    pub iops: BTreeMap<String, u64>,
    /// Maximum TiB of a type that are modified at one time.
    pub modification_tib: BTreeMap<String, u64>,
    /// Maximum number of concurrent copies of volumes.
    pub concurrent_copies: Option<usize>,
    /// Maximum number of snapshots with fast restore in a zone.
    pub fast_restores: Option<usize>,
    /// Maximum number of `pending` snapshots in the region.
    pub pending_snapshots: Option<usize>,
    pub instances: Option<usize>,
}
