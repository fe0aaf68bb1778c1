//! Decides when and how often to call EC2: a rate limiter in front of the port, and describes that share calls.
//!
//! This crate does not know the purpose of a call. The caller of a mutation gives its priority and its deadline. The
//! subscriber of a describe gives the times at which it needs the state of an object. `ebs-cloud` interprets the
//! answers.
//!
//! - [`RateLimited`] is the access to EC2. Every call waits for a token of the bucket that EC2 charges.
//! - [`DescribeBatchers`] describe many objects in one call, as often as their subscribers need it and the rate limiter
//!   allows.
//! - [`TransitionTimes`] learn the times of EC2's transitions, so that the first poll is neither early nor late.
//! - [`SharedAnswers`] share one request between all its callers, and cache the answer.
#![warn(missing_docs)]

mod describe;
mod expiring;
mod shared_answers;
mod throttle;

pub use describe::{
    DescribeBatcher, DescribeBatchers, DescribeQuery, Observation, PollTimes, Subscription, Transition,
    TransitionTimes, TypicalRange, pages,
};
pub use expiring::Expiring;
pub use shared_answers::SharedAnswers;
pub use throttle::{BucketKey, DESCRIBE_TIMEOUT, Ec2Handle, QueuePlace, RateLimited};
