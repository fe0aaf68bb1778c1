//! Client tokens of CreateVolume and CopyVolumes: a function of the volume's name, so that a retry, also by another
//! process or by the reference driver, is the same request.
//!
//! Decision: `docs/decisions/0005-create-a-volume-once-by-client-token.md`.

use std::time::Duration;

use ebs_calls::Expiring;
use sha2::{Digest, Sha256};

/// EC2 keeps a token whose volume is gone burnt for about 12 h; a counter that is forgotten earlier costs one call.
const COUNTER_LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// Remembers which names had to move on to a further token.
#[derive(Debug, Default)]
pub(crate) struct ClientTokens {
    counters: Expiring<String, u32>,
}

impl ClientTokens {
    /// The token for that name now: 64 lower-case hexadecimal digits.
    pub(crate) fn current(&self, name: &str) -> String {
        match self.counters.get(&name.to_owned()) {
            None => token(name),
            Some(n) => token(&format!("{name}-{n}")),
        }
    }

    /// Moves on to the next token. Only after proof that no live volume of the present one exists.
    pub(crate) fn rotate(&self, name: &str) {
        let next = self.counters.get(&name.to_owned()).map_or(2, |n| n.saturating_add(1));
        self.counters.insert(name.to_owned(), next, COUNTER_LIFETIME);
    }
}

/// The lower-case hexadecimal SHA-256 of a text.
pub(crate) fn token(base: &str) -> String {
    hex::encode(Sha256::digest(base.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client token is the lower-case SHA-256 of the volume name, or of `<name>-<n>` once tokens had to change.
    #[tokio::test(start_paused = true)]
    async fn tokens_are_those_of_the_published_vectors() {
        let tokens = ClientTokens::default();
        let name = "test-vol-client-token";
        assert_eq!(tokens.current(name), "6a1b29bd7c5c5541d9d6baa2938e954fc5739dc77e97facf23590bd13f8582c2");
        tokens.rotate(name);
        assert_eq!(tokens.current(name), "21465f5586388bb8804d0cec2df13c00f9a975c8cddec4bc35e964cdce59015b");
        tokens.rotate(name);
        assert_eq!(tokens.current(name), "1bee5a79d83981c0041df2c414bb02e0c10aeb49343b63f50f71470edbaa736b");
        assert_eq!(tokens.current("another"), token("another"));
    }

    /// A name keeps its next token for 12 h, as long as EC2 keeps the old one burnt.
    #[tokio::test(start_paused = true)]
    async fn a_name_keeps_its_next_token_for_as_long_as_the_old_one_is_burnt() {
        let tokens = ClientTokens::default();
        tokens.rotate("pvc-1");
        tokio::time::advance(COUNTER_LIFETIME - Duration::from_secs(1)).await;
        assert_eq!(tokens.current("pvc-1"), token("pvc-1-2"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(tokens.current("pvc-1"), token("pvc-1"));
    }
}
