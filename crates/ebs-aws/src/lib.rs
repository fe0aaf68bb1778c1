//! The port `ebs-ec2` over the AWS SDK: the only crate that names `aws-sdk-ec2`.
//!
//! One port call is one SDK call. Requests are built and replies read in `convert`, failures get their meaning in
//! `classify`, and `call` wraps each call in a span, tells the observer, and knows whether anything was sent.
#![warn(missing_docs)]

mod client;

pub use client::{AwsConfig, AwsEc2, ConfigError, Timeouts};
