//! Client tokens. The same token with the same parameters refers to the same volume while the volume exists and for
//! another 12 hours.

use std::time::SystemTime;

use serde::Serialize;

use crate::api::{Fault, SimVolume};

use super::faults;
use super::model::{EndedVolume, Sim, Token};

const MAX_LENGTH: usize = 64;

pub(super) enum Use {
    /// Execute the call, and store the token with the new volume.
    First {
        fingerprint: String,
    },
    /// Reply with the volume that an earlier call with the token created.
    Repeat(Box<SimVolume>),
    Untracked,
}

/// Looks up a token. `request` must not depend on the token or on the dry-run flag.
pub(super) fn use_token<T: Serialize>(
    sim: &Sim,
    now: SystemTime,
    token: Option<&str>,
    action: &str,
    request: &T,
) -> Result<Use, Fault> {
    check_token(token)?;
    let Some(token) = token.filter(|t| !t.is_empty()) else { return Ok(Use::Untracked) };
    let request = serde_json::to_string(request).expect("requests are plain data");
    let fingerprint = format!("{action} {request}");
    let Some(known) = sim.tokens.get(token).filter(|t| !t.is_over(now)) else {
        return Ok(Use::First { fingerprint });
    };
    if known.fingerprint != fingerprint {
        return Err(faults::token_mismatch());
    }
    match (sim.volumes.get(&known.volume), &known.gone) {
        (Some(volume), _) => Ok(Use::Repeat(Box::new(volume.describe()))),
        (None, Some(gone)) if sim.policy.burnt_token_repeats_reply => {
            Ok(Use::Repeat(Box::new(SimVolume { state: "creating".to_owned(), ..gone.volume.clone() })))
        }
        (None, _) => Err(Fault::new(
            "IdempotentParameterMismatch",
            "The client token you have provided is associated with a resource that is already deleted. Please use a \
             different client token.",
        )),
    }
}

pub(super) fn remember_token(sim: &mut Sim, token: Option<String>, usage: Use, volume: &str) {
    if let (Some(token), Use::First { fingerprint }) = (token, usage) {
        sim.tokens.insert(token, Token { fingerprint, volume: volume.to_owned(), gone: None });
    }
}

pub(super) fn burn_tokens_of(sim: &mut Sim, volume: &SimVolume, now: SystemTime) {
    for token in sim.tokens.values_mut().filter(|t| t.volume == volume.id) {
        token.gone = Some(EndedVolume { at: now, volume: volume.clone() });
    }
}

pub(super) fn forget_tokens_of(sim: &mut Sim, volume: &str) {
    sim.tokens.retain(|_, t| t.volume != volume);
}

pub(super) fn expire_tokens(sim: &mut Sim, now: SystemTime) -> bool {
    let before = sim.tokens.len();
    sim.tokens.retain(|_, t| !t.is_over(now));
    sim.tokens.len() != before
}

pub(super) fn check_token(token: Option<&str>) -> Result<(), Fault> {
    if token.is_some_and(|token| token.len() > MAX_LENGTH || !token.is_ascii()) {
        let message = format!("Client token must be less than or equal to {MAX_LENGTH} characters");
        return Err(faults::invalid_value(message));
    }
    Ok(())
}
