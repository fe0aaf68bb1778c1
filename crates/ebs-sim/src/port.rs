//! The EC2 port over the engine, for tests without HTTP.

use std::time::SystemTime;

use ebs_ec2::{Action, ErrorClass};

use crate::engine::{Engine, EngineConfig, EngineError};

/// EC2 in this process. Clones share everything.
#[derive(Debug, Clone)]
pub struct SimEc2 {
    engine: Engine,
}

/// A call that was made through the port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortCall {
    /// What was called.
    pub action: Action,
    /// When, on the engine's clock.
    pub at: SystemTime,
    /// A dry run.
    pub dry_run: bool,
    /// The request, for messages.
    pub request: String,
    /// `None`: success.
    pub error: Option<ErrorClass>,
}

impl SimEc2 {
    /// Starts an engine of its own.
    ///
    /// # Errors
    /// [`EngineError`].
    pub async fn start(config: EngineConfig) -> Result<Self, EngineError> {
        Ok(Self::over(Engine::start(config).await?))
    }

    /// Over an engine that runs already.
    pub fn over(engine: Engine) -> Self {
        Self { engine }
    }

    /// The engine, for [`Engine::set_timing`] and [`Engine::snapshot_of_state`].
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}
