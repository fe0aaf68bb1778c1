//! A predefined sequence of events in the simulated EC2.

mod attachment;
mod step;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::Engine;

pub use attachment::{Lag, Stuck};
pub use step::Step;

/// Steps in the order of their times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scenario {
    steps: Vec<Step>,
}

impl Scenario {
    /// Parses a list of steps.
    ///
    /// # Errors
    /// A sentence that names the step and the field.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        let mut steps = step::list(json)?;
        // Steps of one time keep their order.
        steps.sort_by_key(|step| step.at_ms);
        Ok(Self { steps })
    }

    /// Returns its steps in the order of their times.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns whether a step sets times.
    pub fn sets_times(&self) -> bool {
        self.steps.iter().any(|step| step.timing.is_some())
    }

    /// Runs the steps at time zero, so that no call precedes them. Returns the remaining scenario.
    pub fn begin(mut self, engine: &Engine) -> Self {
        let later = self.steps.iter().position(|step| step.at_ms > 0).unwrap_or(self.steps.len());
        self.steps.drain(..later).for_each(|step| step.take(engine));
        self
    }

    /// Runs every step at its time, counted from now. Dropping the future stops it.
    pub async fn run(self, engine: &Engine) {
        let start = Instant::now();
        for step in self.steps {
            tokio::time::sleep_until(start + Duration::from_millis(step.at_ms)).await;
            step.take(engine);
        }
    }
}
