//! The port `ebs-ec2` over the AWS SDK: the only crate that names `aws-sdk-ec2`.
//!
//! One port call is one SDK call. Replies become port types in `convert`, failures get their meaning in
//! `classify`, `call` wraps each call in a span and tells the observer, and `call_monitor` watches the call inside the
//! SDK: whether anything was sent, and whether what came back is whole (`document`) and not too large.
//!
//! HyperPod nodes need two calls of SageMaker, whose SDK would be as large as EC2's: they are written by hand over
//! the SDK's own runtime (`sagemaker`), which signs, sends and limits them like the others.
//!
//! Mutating calls are sent once; describes are repeated a little on transient errors, never on a throttle, because
//! the budget is the caller's to keep.
#![warn(missing_docs)]

mod account;
mod attachments;
mod call;
mod call_monitor;
mod classify;
mod client;
mod cluster_nodes;
mod convert;
mod document;
mod endpoint;
mod failure;
mod http_client;
mod instances;
mod partition;
mod query;
mod retry;
mod sagemaker;
mod snapshots;
mod transport;
mod user_agent;
mod volumes;
mod zones;

pub use client::{AwsConfig, AwsEc2, ConfigError, Settings, Timeouts};
pub use transport::{Transport, fixed_credentials};
