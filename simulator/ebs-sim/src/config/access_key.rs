//! The key with which clients must sign requests.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

/// An access key and its secret, which is never displayed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessKey {
    /// The id of the key. Requests contain it in clear text.
    pub id: String,
    /// The secret. Clients sign with it and never send it.
    pub secret: String,
    /// The session token that every request must also contain, as with temporary credentials.
    pub session_token: Option<String>,
}

impl AccessKey {
    /// Parses `ID:SECRET`, the form of the command line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (id, secret) = text.split_once(':').ok_or("expected ID:SECRET, separated by a colon")?;
        let key = Self { id: id.to_owned(), secret: secret.to_owned(), session_token: None };
        key.check()?;
        Ok(key)
    }

    /// Checks the characters of the id and of the secret.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (id, secret) = (&self.id, &self.secret);
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err("the ID must be one or more letters and digits".to_owned());
        }
        if secret.is_empty() || !secret.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("the SECRET must be one or more printable ASCII characters without spaces".to_owned());
        }
        Ok(())
    }
}

/// The key that clients must use now, and the keys that it replaced. Clones share everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct ValidKey(Arc<Mutex<Keys>>);

#[derive(Debug, Clone, Default)]
pub(crate) struct Keys {
    /// `None` accepts any key.
    pub(crate) current: Option<AccessKey>,
    pub(crate) expired: Vec<AccessKey>,
}

impl ValidKey {
    pub(crate) fn new(current: Option<AccessKey>) -> Self {
        Self(Arc::new(Mutex::new(Keys { current, expired: Vec::new() })))
    }

    pub(crate) fn get(&self) -> Keys {
        self.lock().clone()
    }

    /// Replaces the key. The previous one has expired from now on.
    pub(crate) fn set(&self, key: AccessKey) {
        let mut keys = self.lock();
        keys.expired.retain(|expired| *expired != key);
        let previous = keys.current.replace(key);
        let expired = previous.filter(|previous| keys.current.as_ref() != Some(previous));
        keys.expired.extend(expired);
    }

    fn lock(&self) -> MutexGuard<'_, Keys> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccessKey({}, secret hidden)", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_key_without_id_or_secret_is_rejected() {
        let key = AccessKey::parse("AKIA1:se:cret/+").unwrap();
        assert_eq!((key.id.as_str(), key.secret.as_str()), ("AKIA1", "se:cret/+"));
        for bad in ["", "AKIA1", ":secret", "AKIA1:", "AK IA:secret", "AKIA1:sec ret"] {
            assert!(AccessKey::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn secret_of_access_key_is_not_displayed() {
        let key = AccessKey::parse("AKIA1:canary").unwrap();
        assert!(!format!("{key:?}").contains("canary"));
    }
}
