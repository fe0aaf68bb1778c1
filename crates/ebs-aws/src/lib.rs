//! The port `ebs-ec2` over the AWS SDK: the only crate that names `aws-sdk-ec2`.
//!
//! One port call is one SDK call. Replies become port types in `convert`, failures get their meaning in
//! `classify`, and `call` wraps each call in a span, tells the observer, and knows whether anything was sent.
//! Mutating calls are sent once; describes are repeated a little on transient errors, never on a throttle, because
//! the budget is the caller's to keep.
#![warn(missing_docs)]

mod attachments;
mod call;
mod classify;
mod client;
mod cluster_nodes;
mod convert;
mod endpoint;
mod failure;
mod http_client;
mod instances;
mod query;
mod retry;
mod snapshots;
mod user_agent;
mod volumes;
mod zones;

pub use client::{AwsConfig, AwsEc2, ConfigError, Settings, Timeouts};
