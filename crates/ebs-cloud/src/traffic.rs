//! Decides when and how often to call EC2: a rate limiter in front of the port, and describes that share calls.
//!
//! This module does not know the purpose of a call. The caller of a mutation gives its priority and its deadline. The
//! subscriber of a describe gives the times at which it needs the state of an object.
//!
//! - [`RateLimited`] returns [`Ec2Handle`]s, which make calls through the rate limiter. Every call waits for a token of
//!   the bucket that EC2 charges. `rate_limiter` and `token_bucket` estimate how many calls EC2 still accepts.
//! - [`DescribeBatchers`] describe many objects in one call, as often as their subscribers need it and the rate limiter
//!   allows.
//! - [`TransitionTimes`] learn how long EC2's transitions take, so that the first poll is neither early nor late.
//! - [`SharedAnswers`] make one request for all callers and cache the answer.
//!
//! Decision: `docs/decisions/0009-share-one-budget-for-ec2-calls.md`.

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
pub(crate) use expiring::Expiring;
pub(crate) use queries::DescribeQuery;
pub(crate) use schedule::PollTimes;
pub(crate) use shared_answers::SharedAnswers;
pub(crate) use transition_times::{Transition, TransitionTimes};
