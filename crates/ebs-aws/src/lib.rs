//! The port `ebs-ec2` over the AWS SDK's runtime.
//!
//! One call of the port is one request. `query` writes it. `service` hands it to the SDK's runtime, which loads
//! credentials, signs, sends, enforces timeouts and retries. `reply` reads the complete answer or rejects it, and
//! `convert` makes port types of it. `classify` gives failures their meaning. `call` wraps each call in a span and
//! reports it to the observer. `call_monitor` monitors the call inside the runtime: whether a request was sent, and
//! whether the reply is too large.
//!
//! The SDK's own EC2 client is not used. Its decoder accepts a truncated reply as complete, and its 700 operations cost
//! more than the rest of the driver (`ARCHITECTURE.md`). HyperPod nodes need two calls of SageMaker (`sagemaker`),
//! which are sent the same way with JSON. STS is part of the SDK's configuration.
//!
//! Mutating calls are sent once. Describes are retried a few times after transient errors, but never after a throttle,
//! because the caller manages the rate limit.

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
mod retry;
mod sagemaker;
mod service;
mod snapshots;
mod transport;
mod user_agent;
mod volumes;
mod zones;

pub use client::{AwsConfig, AwsEc2, ConfigError, Settings};
pub use transport::Transport;
