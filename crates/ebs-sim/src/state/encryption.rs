//! Encryption: the account's default, keys, and keys that cannot be used.
//!
//! EC2 looks at a key only after it has accepted the volume: one that cannot be used makes the volume vanish instead
//! of refusing it (`decisions.md` D-61).

use crate::api::{CreateVolume, Fault};

use super::Sim;
use super::account::Account;

/// How a volume is encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Encryption {
    /// ARN; `None`: it is not encrypted.
    pub(super) key: Option<String>,
    /// The key can be used.
    pub(super) usable: bool,
}

impl Encryption {
    const NONE: Self = Self { key: None, usable: true };
}

impl Sim {
    pub(super) fn encryption(&self, call: &CreateVolume) -> Result<Encryption, Fault> {
        let key = call.kms_key_id.as_deref().filter(|k| !k.is_empty());
        let by_default = self.policy.account.encrypt_by_default;
        if key.is_some() && call.encrypted != Some(true) && !by_default {
            return Err(Fault::new(
                "InvalidParameterDependency",
                "The parameter KmsKeyId requires the parameter Encrypted to be set.",
            ));
        }
        let of_snapshot = call.snapshot_id.as_ref().and_then(|id| self.snapshots.get(id)).filter(|s| s.encrypted);
        if call.encrypted != Some(true) && of_snapshot.is_none() && !by_default {
            return Ok(Encryption::NONE);
        }
        let inherited = of_snapshot.and_then(|s| s.kms_key_id.clone());
        let mut encryption = self.with_key(key.or(inherited.as_deref()));
        // The snapshot has to be read with its own key too.
        encryption.usable &= inherited.is_none_or(|inherited| self.with_key(Some(&inherited)).usable);
        Ok(encryption)
    }

    /// Encryption of a copy: with its source's key, or as the account has it.
    pub(super) fn encryption_of_copy(&self, source_key: Option<&str>) -> Encryption {
        if source_key.is_none() && !self.policy.account.encrypt_by_default {
            return Encryption::NONE;
        }
        self.with_key(source_key)
    }

    fn with_key(&self, key: Option<&str>) -> Encryption {
        let settings = &self.policy.account;
        let named = key.or(settings.default_kms_key.as_deref());
        let (arn, exists) = self.account.kms_key(named);
        let unusable = settings.unusable_kms_keys.iter().any(|key| self.account.kms_key(Some(key)).0 == arn);
        Encryption { key: Some(arn), usable: exists && !unusable }
    }
}

impl Account {
    /// The ARN of the key behind what a client may name it by, and whether such a key can exist.
    pub(super) fn kms_key(&self, given: Option<&str>) -> (String, bool) {
        let prefix = format!("arn:aws:kms:{}:{}:key/", self.region, self.id);
        let given = given.unwrap_or("alias/aws/ebs");
        if given.starts_with("alias/") {
            return (format!("{prefix}{}", key_of_alias(given)), true);
        }
        let Some(arn) = given.strip_prefix("arn:") else {
            return (format!("{prefix}{given}"), is_key_id(given));
        };
        let parts: Vec<&str> = arn.splitn(5, ':').collect();
        let [_, "kms", region, account, resource] = parts[..] else { return (given.to_owned(), false) };
        let here = region == self.region && account.len() == 12 && account.bytes().all(|b| b.is_ascii_digit());
        match (resource.strip_prefix("key/"), resource.starts_with("alias/")) {
            (Some(id), _) => (given.to_owned(), here && is_key_id(id)),
            (None, true) => (format!("{prefix}{}", key_of_alias(resource)), here),
            (None, false) => (given.to_owned(), false),
        }
    }
}

/// A UUID, or the id of a key of several regions.
fn is_key_id(text: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some(digits) = text.strip_prefix("mrk-") {
        return digits.len() == 32 && hex(digits);
    }
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12] && text.split('-').all(hex)
}

/// Every alias stands for a key of its own, always the same.
fn key_of_alias(alias: &str) -> String {
    use sha2::Digest as _;
    let digest = hex::encode(sha2::Sha256::digest(alias.as_bytes()));
    format!("{}-{}-{}-{}-{}", &digest[..8], &digest[8..12], &digest[12..16], &digest[16..20], &digest[20..32])
}
