//! What EC2 shows of its objects, and when it is asked.
//!
//! - [`DescribeBatchers`]: one for each kind of object, which puts the questions of all subscribers into few calls.
//! - [`TransitionTimes`] tell when a subscriber that waits for a transition is polled for first.
//! - [`pages`] reads listings to their end.
//!
//! Decision: `docs/decisions/0009-share-one-budget-for-ec2-calls.md`.

mod batcher;
mod bisect;
pub mod pages;
mod queries;
mod schedule;
mod transition_times;

pub use batcher::{DescribeBatcher, DescribeBatchers, Observation, Subscription};
pub use queries::DescribeQuery;
pub use schedule::PollTimes;
pub use transition_times::{Transition, TransitionTimes, TypicalRange};
