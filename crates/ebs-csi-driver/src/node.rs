//! The node service for the platform of this build.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

use std::sync::Arc;

use ebs_driver::operation::Operations;
use ebs_ec2::DriverName;
use ebs_metadata::Machine;
use ebs_telemetry::Metrics;

#[cfg(target_os = "linux")]
pub use linux::System;
#[cfg(target_os = "linux")]
pub(crate) use linux::{Service, build, finish};
#[cfg(windows)]
pub use windows::System;
#[cfg(windows)]
pub(crate) use windows::{Service, build, finish};

pub(crate) struct NodeParts {
    pub(crate) driver: DriverName,
    pub(crate) machine: Arc<Machine>,
    pub(crate) operations: Operations,
    #[cfg_attr(windows, expect(dead_code, reason = "Windows reports no statistics of disks or file systems"))]
    pub(crate) metrics: Arc<Metrics>,
}
