//! How often EC2 is called.
//!
//! - [`RateLimited`] gives [`Ec2Handle`]s, the port behind the rate limiter: every call waits for its token
//!   there, in the handle's context, which says how urgent it is and until when it may wait.
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
