//! The rate limiter for calls to EC2.
//!
//! - [`RateLimited`] returns [`Ec2Handle`]s, the port behind the rate limiter. Every call waits there for its token, in
//!   the handle's context, which has its priority and its deadline.
//! - [`limiter::RateLimiter`] estimates how many calls EC2 still accepts, from EC2's documentation and its throttles.
//!
//! Decision: `docs/decisions/0009-share-one-budget-for-ec2-calls.md`.

mod bucket_key;
mod call_context;
mod client;
mod limiter;
mod token_bucket;
mod wait_queue;

pub use bucket_key::BucketKey;
pub use call_context::QueuePlace;
pub use client::{DESCRIBE_TIMEOUT, Ec2Handle, RateLimited};
