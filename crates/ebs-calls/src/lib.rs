//! When and how often EC2 is called: a rate limiter in front of the port, and describes that share calls.
//!
//! Nothing here knows what a call is for. Whoever makes one says how urgent it is and until when it may wait; whoever
//! asks for the state of an object says when it needs to know. What an answer means is decided in `ebs-cloud`.
//!
//! - [`RateLimited`] is the way to EC2: every call waits for a token of the bucket that EC2 takes it from.
//! - [`DescribeBatchers`] ask for many objects in one call, as often as their subscribers need it and the rate limiter
//!   allows.
//! - [`TransitionTimes`] learn how long EC2 takes, so that the first poll is neither early nor late.
//! - [`SharedAnswers`] are asked for once by all who want them, and kept for a while.
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
