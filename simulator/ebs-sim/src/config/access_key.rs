//! The key with which clients must sign requests.

use std::fmt;

/// An access key and its secret, which is never displayed.
#[derive(Clone, PartialEq, Eq)]
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
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err("the ID must be one or more letters and digits".to_owned());
        }
        if secret.is_empty() || !secret.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("the SECRET must be one or more printable ASCII characters without spaces".to_owned());
        }
        Ok(Self { id: id.to_owned(), secret: secret.to_owned(), session_token: None })
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
