//! The port `ebs-ec2` over the AWS SDK's runtime.
//!
//! One port call is one request. `query` writes it, `service` hands it to the SDK's runtime, which finds credentials, signs, sends,
//! keeps time limits and repeats; `reply` reads the answer as a whole or not at all, `convert` makes port types of it. Failures get
//! their meaning in `classify`, `call` wraps each call in a span and tells the observer, and `call_monitor` watches the
//! call inside the runtime: whether anything was sent, and whether what came back is not too large.
//!
//! The SDK's own client of EC2 is not used: its decoder takes half of a reply for the whole, and its 700 operations cost more than
//! all of the driver besides (`ARCHITECTURE.md`). HyperPod nodes need two calls of SageMaker (`sagemaker`), which go the same
//! way with JSON; STS comes with the SDK's configuration.
//!
//! Mutating calls are sent once; describes are repeated a little on transient errors, never on a throttle, because
//! the budget is the caller's to keep.
#![warn(missing_docs)]

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

pub use client::{AwsConfig, AwsEc2, ConfigError, Settings, Timeouts};
pub use transport::{Transport, fixed_credentials};
