//! Encryption: the account's default and keys. As in EC2, a volume with an unusable key is accepted, then disappears.

use crate::api::{CopyVolumes, CreateVolume, Fault};

use super::model::Account;
use super::model::Sim;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Encryption {
    /// ARN of the key, or `None` for an unencrypted volume.
    pub(super) key: Option<String>,
    pub(super) usable: bool,
}

impl Encryption {
    const NONE: Self = Self { key: None, usable: true };
}

pub(super) fn encryption_of(sim: &Sim, call: &CreateVolume) -> Result<Encryption, Fault> {
    let by_default = sim.policy.account.encrypt_by_default;
    let key = asked_key(sim, call.kms_key_id.as_deref(), call.encrypted)?;
    let of_snapshot = call.snapshot_id.as_ref().and_then(|id| sim.snapshots.get(id)).filter(|s| s.encrypted);
    if call.encrypted != Some(true) && of_snapshot.is_none() && !by_default {
        return Ok(Encryption::NONE);
    }
    let inherited = of_snapshot.and_then(|s| s.kms_key_id.clone());
    let mut encryption = with_key(sim, key.or(inherited.as_deref()));
    // EC2 also needs the snapshot's own key, to read the snapshot.
    encryption.usable &= inherited.is_none_or(|inherited| with_key(sim, Some(&inherited)).usable);
    Ok(encryption)
}

/// Returns the encryption of a copy. If the source is encrypted, its key applies, whatever the call contains (EC2 API
/// reference, CopyVolumes). Otherwise the call or the account's default decides. AWS does not document whether EC2
/// accepts another key for the copy of an encrypted volume.
pub(super) fn encryption_of_copy(sim: &Sim, call: &CopyVolumes, source_key: Option<&str>) -> Result<Encryption, Fault> {
    let key = asked_key(sim, call.kms_key_id.as_deref(), call.encrypted)?;
    if source_key.is_none() && call.encrypted != Some(true) && !sim.policy.account.encrypt_by_default {
        return Ok(Encryption::NONE);
    }
    Ok(with_key(sim, source_key.or(key)))
}

/// Returns the key that the call names, if any. Rejects a key if neither the call nor the account encrypts the volume.
fn asked_key<'a>(sim: &Sim, key: Option<&'a str>, encrypted: Option<bool>) -> Result<Option<&'a str>, Fault> {
    let key = key.filter(|key| !key.is_empty());
    if key.is_some() && encrypted != Some(true) && !sim.policy.account.encrypt_by_default {
        return Err(Fault::new(
            "InvalidParameterDependency",
            "The parameter KmsKeyId requires the parameter Encrypted to be set.",
        ));
    }
    Ok(key)
}

fn with_key(sim: &Sim, key: Option<&str>) -> Encryption {
    let settings = &sim.policy.account;
    let named = key.or(settings.default_kms_key.as_deref());
    let (arn, exists) = kms_key(&sim.account, named);
    let unusable = settings.unusable_kms_keys.iter().any(|key| kms_key(&sim.account, Some(key)).0 == arn);
    Encryption { key: Some(arn), usable: exists && !unusable }
}

fn is_key_id(text: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some(digits) = text.strip_prefix("mrk-") {
        return digits.len() == 32 && hex(digits);
    }
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12] && text.split('-').all(hex)
}

/// Returns the id of the key behind an alias. Every alias has its own key, which never changes.
fn key_of_alias(alias: &str) -> String {
    use sha2::Digest as _;
    let digest = hex::encode(sha2::Sha256::digest(alias.as_bytes()));
    format!("{}-{}-{}-{}-{}", &digest[..8], &digest[8..12], &digest[12..16], &digest[16..20], &digest[20..32])
}

/// Returns the ARN of a key that a client names in any form, and whether such a key can exist.
pub(super) fn kms_key(account: &Account, given: Option<&str>) -> (String, bool) {
    let prefix = format!("arn:aws:kms:{}:{}:key/", account.region, account.id);
    let given = given.unwrap_or("alias/aws/ebs");
    if given.starts_with("alias/") {
        return (format!("{prefix}{}", key_of_alias(given)), true);
    }
    let Some(arn) = given.strip_prefix("arn:") else {
        return (format!("{prefix}{given}"), is_key_id(given));
    };
    let parts: Vec<&str> = arn.splitn(5, ':').collect();
    let [_, "kms", region, owner, resource] = parts[..] else { return (given.to_owned(), false) };
    let here = region == account.region && owner.len() == 12 && owner.bytes().all(|b| b.is_ascii_digit());
    match (resource.strip_prefix("key/"), resource.starts_with("alias/")) {
        (Some(id), _) => (given.to_owned(), here && is_key_id(id)),
        (None, true) => (format!("{prefix}{}", key_of_alias(resource)), here),
        (None, false) => (given.to_owned(), false),
    }
}
