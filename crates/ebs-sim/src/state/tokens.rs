//! Client tokens: the same token and parameters refer to the same volume while it exists and for another 12 hours.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::api::{Fault, SimVolume};

use super::{Sim, faults};

/// How long the token of a deleted volume stays burnt.
const BURNT_FOR: Duration = Duration::from_hours(12);
const MAX_LENGTH: usize = 64;

/// The use of a token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Token {
    /// Action and parameters of the first call.
    fingerprint: String,
    volume: String,
    /// The deletion of its volume.
    gone: Option<Gone>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Gone {
    at: SystemTime,
    /// The last version of the volume, for the old reply.
    volume: SimVolume,
}

impl Token {
    fn is_over(&self, now: SystemTime) -> bool {
        self.gone.as_ref().is_some_and(|gone| gone.at + BURNT_FOR <= now)
    }
}

/// The handling of a call with a token.
pub(super) enum Use {
    /// Continue, and store the token with the new volume.
    First { fingerprint: String },
    /// Reply with the token's volume.
    Repeat(Box<SimVolume>),
    /// No token was sent.
    Untracked,
}

impl Sim {
    /// Looks a token up. `request` must not depend on the token or on a dry run.
    pub(super) fn use_token<T: Serialize>(
        &self,
        now: SystemTime,
        token: Option<&str>,
        action: &str,
        request: &T,
    ) -> Result<Use, Fault> {
        check_token(token)?;
        let Some(token) = token.filter(|t| !t.is_empty()) else { return Ok(Use::Untracked) };
        let request = serde_json::to_string(request).expect("requests are plain data");
        let fingerprint = format!("{action} {request}");
        let Some(known) = self.tokens.get(token).filter(|t| !t.is_over(now)) else {
            return Ok(Use::First { fingerprint });
        };
        if known.fingerprint != fingerprint {
            return Err(faults::token_mismatch());
        }
        match (self.volumes.get(&known.volume), &known.gone) {
            (Some(volume), _) => Ok(Use::Repeat(Box::new(volume.describe()))),
            (None, Some(gone)) if self.policy.burnt_token_repeats_reply => {
                Ok(Use::Repeat(Box::new(SimVolume { state: "creating".to_owned(), ..gone.volume.clone() })))
            }
            (None, _) => Err(Fault::new(
                "IdempotentParameterMismatch",
                "The client token you have provided is associated with a resource that is already deleted. Please use a \
                 different client token.",
            )),
        }
    }

    pub(super) fn remember_token(&mut self, token: Option<String>, usage: Use, volume: &str) {
        if let (Some(token), Use::First { fingerprint }) = (token, usage) {
            self.tokens.insert(token, Token { fingerprint, volume: volume.to_owned(), gone: None });
        }
    }

    /// Marks the tokens of a deleted volume as burnt.
    pub(super) fn burn_tokens_of(&mut self, volume: &SimVolume, now: SystemTime) {
        for token in self.tokens.values_mut().filter(|t| t.volume == volume.id) {
            token.gone = Some(Gone { at: now, volume: volume.clone() });
        }
    }

    /// Drops the tokens of a volume that was never created.
    pub(super) fn forget_tokens_of(&mut self, volume: &str) {
        self.tokens.retain(|_, t| t.volume != volume);
    }

    /// Returns the valid tokens with their volumes, which may be deleted.
    #[cfg(test)]
    pub(super) fn tokens_and_volumes(&self) -> impl Iterator<Item = (&String, String)> {
        self.tokens.iter().map(|(token, of)| (token, of.volume.clone()))
    }

    pub(super) fn expire_tokens(&mut self, now: SystemTime) -> bool {
        let before = self.tokens.len();
        self.tokens.retain(|_, t| !t.is_over(now));
        self.tokens.len() != before
    }
}

/// Rejects an invalid client token.
pub(super) fn check_token(token: Option<&str>) -> Result<(), Fault> {
    if token.is_some_and(|token| token.len() > MAX_LENGTH || !token.is_ascii()) {
        let message = format!("Client token must be less than or equal to {MAX_LENGTH} characters");
        return Err(faults::invalid_value(message));
    }
    Ok(())
}
