//! What every program of this project needs: a command line, a log, stop signals, and pages over HTTP.
//!
//! These parts behave as in Kubernetes' own programs, which share `k8s.io/component-base`.

pub mod flags;
#[cfg(feature = "http")]
pub mod http;
pub mod logs;
pub mod metrics;
pub mod signals;
