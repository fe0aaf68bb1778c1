//! Session tokens that contain their own expiry, so that the service need not store them.

use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::time::Instant;

/// Maximum lifetime of a token: six hours.
pub(super) const MAX_TTL_SECONDS: u64 = 21_600;

/// Issues and checks tokens. Tokens of another simulator or of a previous run are invalid.
pub(super) struct Tokens {
    key: [u8; 32],
    started: Instant,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens")
    }
}

impl Tokens {
    pub(super) fn new() -> Self {
        Self { key: rand::random(), started: Instant::now() }
    }

    pub(super) fn issue(&self, ttl_seconds: u64) -> String {
        let expiry = (self.started.elapsed() + Duration::from_secs(ttl_seconds)).as_millis().to_string();
        format!("{expiry}-{}", hex::encode(self.mac(&expiry).finalize().into_bytes()))
    }

    pub(super) fn is_valid(&self, token: &str) -> bool {
        let Some((expiry, proof)) = token.split_once('-') else { return false };
        let Ok(proof) = hex::decode(proof) else { return false };
        let Ok(until) = expiry.parse::<u128>() else { return false };
        self.mac(expiry).verify_slice(&proof).is_ok() && self.started.elapsed().as_millis() < until
    }

    fn mac(&self, expiry: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any length");
        mac.update(expiry.as_bytes());
        mac
    }
}
