//! How much is asked of EC2, and when (`decisions.md` D-20 to D-22).
//!
//! - [`RateLimited`] is the port behind the rate limiter: every call of the policy waits for its token there.
//! - [`RateLimiter`] estimates how many calls EC2 still accepts, from EC2's documentation and its throttles.
//! - [`DescribeBatchers`]: one for each kind of object, which puts the questions of all subscribers into few calls.
//! - [`Lookups`] are single describes through those batchers.

mod batcher;
mod bisect;
mod bucket_key;
mod call_context;
mod client;
mod limiter;
mod lookups;
mod queries;
mod schedule;
mod token_bucket;
mod transition_times;
mod wait_queue;

pub(crate) use batcher::{DescribeBatcher, Observation, PollTimes};
pub(crate) use bucket_key::BucketKey;
pub(crate) use call_context::CallContext;
pub(crate) use client::RateLimited;
pub(crate) use limiter::RateLimiter;
pub(crate) use lookups::{Lookups, latest};
pub(crate) use queries::{DescribeBatchers, DescribeQuery};
pub(crate) use transition_times::TransitionTimes;
