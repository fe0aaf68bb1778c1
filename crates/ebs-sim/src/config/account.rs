//! How the simulated account is set up: encryption, keys, quotas, what zones lack.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Oddities;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccountSettings {
    /// Every new volume is encrypted, whatever the request says.
    pub encrypt_by_default: bool,
    /// The key for volumes that name none: id, alias or ARN. `None`: `alias/aws/ebs`.
    pub default_kms_key: Option<String>,
    /// Keys that are disabled, about to be deleted or not there: id, alias or ARN. A volume that needs one of them is
    /// accepted and then vanishes.
    pub unusable_kms_keys: Vec<String>,
    /// ARN of the Outpost on which the machine's own instance runs. `None`: it runs in the region.
    pub machine_outpost: Option<String>,
    /// Volume types that a zone lacks, by the zone's name. Local Zones lack io2 and standard anyway.
    pub missing_volume_types: BTreeMap<String, Vec<String>>,
    /// What EC2 does in some places or at some times.
    pub oddities: Oddities,
    pub quotas: Quotas,
}

/// Quotas by volume type and others; what is missing has no quota. The default has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    /// TiB that all volumes of a type have together.
    pub storage_tib: BTreeMap<String, u64>,
    /// IOPS that all volumes of a type have together.
    pub iops: BTreeMap<String, u64>,
    /// TiB of a type that are being modified at one time.
    pub modification_tib: BTreeMap<String, u64>,
    /// Copies of volumes that are being made at one time.
    pub concurrent_copies: Option<usize>,
    /// Snapshots enabled for fast restore in a zone.
    pub fast_restores: Option<usize>,
    /// Snapshots of the region that are `pending` at one time.
    pub pending_snapshots: Option<usize>,
    pub instances: Option<usize>,
}

impl Quotas {
    /// What a new account has, as published in the EBS service quotas.
    pub fn published() -> Self {
        let of = |numbers: &[(&str, u64)]| numbers.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        Self {
            storage_tib: of(&[
                ("gp2", 50),
                ("gp3", 50),
                ("io1", 50),
                ("io2", 20),
                ("sc1", 50),
                ("st1", 50),
                ("standard", 50),
            ]),
            iops: of(&[("io1", 300_000), ("io2", 100_000)]),
            modification_tib: of(&[
                ("gp2", 500),
                ("gp3", 500),
                ("io1", 500),
                ("io2", 20),
                ("sc1", 500),
                ("st1", 500),
                ("standard", 500),
            ]),
            concurrent_copies: Some(5),
            fast_restores: Some(5),
            pending_snapshots: Some(100),
            instances: None,
        }
    }
}
