//! The parts that every program of this project has: its command line, log, stop signals, and pages over HTTP.
//!
//! They behave as the programs of Kubernetes do, which share `k8s.io/component-base`.

pub mod flags;
#[cfg(feature = "http")]
pub mod http;
pub mod logs;
pub mod metrics;
pub mod signals;
