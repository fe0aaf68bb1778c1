//! Stale reads and stuck attachments in scenarios and the control API.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::Fault;
use crate::config::Consistency;
use crate::engine::Engine;

/// Maximum lag that is known of EC2.
const MAX_LAG_MS: u64 = 15_000;

/// Maximum lag of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lag {
    /// Milliseconds, at most 15,000.
    pub max_lag_ms: u64,
}

impl Lag {
    /// Rejects a lag that EC2 does not have.
    ///
    /// # Errors
    /// A sentence that names the field.
    pub fn check(self) -> Result<(), String> {
        if self.max_lag_ms > MAX_LAG_MS {
            return Err(format!("max_lag_ms: {} exceeds {MAX_LAG_MS}, EC2's longest lag", self.max_lag_ms));
        }
        Ok(())
    }

    /// Returns the engine's setting.
    pub fn consistency(self) -> Consistency {
        Consistency { max_lag: Duration::from_millis(self.max_lag_ms) }
    }
}

/// An attachment that is stuck or has a broken device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stuck {
    /// The volume's id; `*` for all.
    pub volume: String,
    /// The instance, when the volume is attached to several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}

impl Stuck {
    /// Releases it.
    ///
    /// # Errors
    /// No such attachment exists.
    pub fn release(&self, engine: &Engine) -> Result<(), Fault> {
        if self.volume == "*" {
            engine.release_all();
            return Ok(());
        }
        engine.release_attachment(&self.volume, self.instance.as_deref())
    }
}
