//! The client tokens of CreateVolume and CopyVolumes. A token is a function of the volume's name, so a retry sends the
//! same token, even from another process or from the reference driver.

use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::traffic::Expiring;

/// For about 12 h after a volume is deleted, EC2 creates no volume for its token. Forgetting the counter earlier costs
/// one call.
const COUNTER_LIFETIME: Duration = Duration::from_secs(12 * 3600);

#[derive(Debug, Default)]
pub(crate) struct ClientTokens {
    counters: Expiring<String, u32>,
}

impl ClientTokens {
    /// Returns the current token of the name: 64 lower-case hexadecimal digits.
    pub(crate) fn current(&self, name: &str) -> String {
        match self.counters.get(&name.to_owned()) {
            None => token(name),
            Some(n) => token(&format!("{name}-{n}")),
        }
    }

    /// Switches to the next token. The caller has proven that the current token has no live volume.
    pub(crate) fn rotate(&self, name: &str) {
        let next = self.counters.get(&name.to_owned()).map_or(2, |n| n.saturating_add(1));
        self.counters.insert(name.to_owned(), next, COUNTER_LIFETIME);
    }
}

pub(crate) fn token(base: &str) -> String {
    hex::encode(Sha256::digest(base.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The token is the SHA-256 of the volume name, or of `<name>-<n>` after a rotation.
    #[tokio::test(start_paused = true)]
    async fn client_token_matches_the_published_vectors() {
        let tokens = ClientTokens::default();
        let name = "test-vol-client-token";
        assert_eq!(tokens.current(name), "6a1b29bd7c5c5541d9d6baa2938e954fc5739dc77e97facf23590bd13f8582c2");
        tokens.rotate(name);
        assert_eq!(tokens.current(name), "21465f5586388bb8804d0cec2df13c00f9a975c8cddec4bc35e964cdce59015b");
        tokens.rotate(name);
        assert_eq!(tokens.current(name), "1bee5a79d83981c0041df2c414bb02e0c10aeb49343b63f50f71470edbaa736b");
        assert_eq!(tokens.current("another"), token("another"));
    }

    /// EC2 creates no volume for the old token for about 12 h.
    #[tokio::test(start_paused = true)]
    async fn rotated_token_is_kept_for_12_hours() {
        let tokens = ClientTokens::default();
        tokens.rotate("pvc-1");
        tokio::time::advance(COUNTER_LIFETIME - Duration::from_secs(1)).await;
        assert_eq!(tokens.current("pvc-1"), token("pvc-1-2"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(tokens.current("pvc-1"), token("pvc-1"));
    }
}
