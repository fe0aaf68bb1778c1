//! Decides when and how often to call EC2: a rate limiter in front of the port, and describes that share calls. It uses
//! a call's priority and its times, not its purpose.
//!
//! Decision: `docs/dev/decisions/0009-share-one-budget-for-ec2-calls.md`.

mod batcher;
mod bisect;
mod bucket_key;
mod call_context;
mod client;
mod expiring;
pub mod pages;
mod queries;
mod rate_limiter;
mod schedule;
mod shared_answers;
mod token_bucket;
mod transition_times;
mod wait_queue;

pub(crate) use batcher::{DescribeBatcher, DescribeBatchers, Observation};
pub(crate) use bucket_key::BucketKey;
pub(crate) use call_context::QueuePlace;
pub(crate) use client::Ec2Handle;
pub use client::RateLimited;
pub(crate) use expiring::{Expiring, sweep};
pub(crate) use queries::DescribeQuery;
pub(crate) use schedule::PollTimes;
pub(crate) use shared_answers::SharedAnswers;
pub(crate) use transition_times::{Transition, TransitionTimes};
