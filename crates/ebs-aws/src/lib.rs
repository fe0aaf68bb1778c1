//! Implements the port `ebs-ec2` with the AWS SDK's runtime.
//! One call of the port is one request. `query` writes it, `service` hands it to the SDK's runtime, `reply` reads the
//! complete answer or rejects it, and `convert` turns it into types of the port. HyperPod nodes need two SageMaker
//! calls (`sagemaker`), which are sent the same way with JSON. The STS client comes with the SDK's configuration.
//! The SDK's own EC2 client is not used. It accepts a truncated reply as complete, and its 700 operations would be
//! larger than the rest of the driver (`ARCHITECTURE.md`).
//! Mutating calls are sent once. Describe calls are retried a few times after transient errors, but never after a
//! throttle, because the caller manages the rate limit.

mod account;
mod attachments;
mod call;
mod call_monitor;
mod causes;
mod classify;
mod client;
mod cluster_nodes;
mod convert;
mod credentials;
mod ec2;
mod endpoint;
mod failure;
mod http_client;
mod instances;
mod json_reply;
mod partition;
mod query;
mod refused;
mod reply;
mod sagemaker;
mod service;
mod snapshots;
mod transport;
mod user_agent;
mod volumes;
mod zones;

pub use client::{AwsConfig, AwsEc2, ConfigError, Settings};
pub use transport::Transport;
