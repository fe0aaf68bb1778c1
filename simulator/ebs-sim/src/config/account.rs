//! Settings of the simulated account: encryption, keys, quotas, and missing features of zones.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Oddities;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccountSettings {
    /// Whether every new volume is encrypted, even if the request does not ask for it.
    pub encrypt_by_default: bool,
    /// The key for encrypted volumes without an explicit key: id, alias or ARN. `None` means `alias/aws/ebs`.
    pub default_kms_key: Option<String>,
    /// Keys that are disabled, pending deletion or missing: id, alias or ARN. A volume that needs one of them is
    /// accepted and then disappears.
    pub unusable_kms_keys: Vec<String>,
    /// ARN of the Outpost of this machine's own instance. `None`: the instance runs in the region.
    pub machine_outpost: Option<String>,
    /// The volume types that a zone does not offer, by zone name. Local Zones never offer io2 and standard.
    pub missing_volume_types: BTreeMap<String, Vec<String>>,
    /// Behaviour that EC2 shows only in some places or at some times.
    pub oddities: Oddities,
    pub quotas: Quotas,
}

/// Quotas, most of them by volume type. A missing entry means no limit, and by default there are no limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    /// Maximum total size in TiB of all volumes of a type.
    pub storage_tib: BTreeMap<String, u64>,
    /// Maximum total IOPS of all volumes of a type.
    pub iops: BTreeMap<String, u64>,
    /// Maximum total size in TiB of the volumes of a type that are being modified.
    pub modification_tib: BTreeMap<String, u64>,
    /// Maximum number of concurrent volume copies.
    pub concurrent_copies: Option<usize>,
    /// Maximum number of snapshots with fast snapshot restore in a zone.
    pub fast_restores: Option<usize>,
    /// Maximum number of `pending` snapshots in the region.
    pub pending_snapshots: Option<usize>,
    pub instances: Option<usize>,
}
