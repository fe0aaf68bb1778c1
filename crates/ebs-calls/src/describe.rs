//! Describes of EC2 objects, and their times.
//!
//! - [`DescribeBatchers`]: one for each kind of object, which combines the requests of all subscribers into few calls.
//! - [`TransitionTimes`] determine the first poll for a subscriber that waits for a transition.
//! - [`pages`] reads all pages of a listing.
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
