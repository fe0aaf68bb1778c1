//! The facts on which permissions depend: customer keys, and tags of resources.

use crate::iam::{AccountFacts, Facts};

use super::encryption::kms_key;
use super::ids::Kind;
use super::model::Sim;

impl AccountFacts for Sim {
    fn region(&self) -> &str {
        &self.account.region
    }

    fn account(&self) -> &str {
        &self.account.id
    }

    fn facts(&self, id: &str) -> Option<Facts<'_>> {
        let key = |key: &Option<String>| key.as_deref().and_then(|key| self.customer_key(key));
        match Kind::of(id)? {
            Kind::Volume => self.volumes.get(id).map(|volume| Facts {
                tags: &volume.tags,
                volume_type: Some(volume.volume_type.as_str()),
                zone: Some(&volume.zone),
                encrypted: volume.encrypted,
                customer_key: key(&volume.kms_key_id),
            }),
            Kind::Snapshot => self.snapshots.get(id).map(|snapshot| Facts {
                tags: &snapshot.tags,
                volume_type: None,
                zone: None,
                encrypted: snapshot.encrypted,
                customer_key: key(&snapshot.kms_key_id),
            }),
            Kind::Instance => self.instances.iter().find(|instance| instance.id == id).map(|instance| Facts {
                tags: &instance.tags,
                volume_type: None,
                zone: Some(&instance.zone),
                encrypted: false,
                customer_key: None,
            }),
        }
    }

    fn customer_key(&self, given: &str) -> Option<String> {
        let (default, _) = kms_key(&self.account, None);
        let (key, _) = kms_key(&self.account, Some(given));
        (key != default).then_some(key)
    }

    fn default_customer_key(&self, asked: bool) -> Option<String> {
        let settings = &self.policy.account;
        let key = settings.default_kms_key.as_deref().filter(|_| asked || settings.encrypt_by_default)?;
        self.customer_key(key)
    }
}
