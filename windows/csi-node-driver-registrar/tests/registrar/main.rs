//! The registrar's program between a driver and a kubelet, which the tests implement.

mod fake_driver;
mod over_tcp;
mod program;

#[cfg(target_os = "linux")]
mod command_line;
#[cfg(target_os = "linux")]
mod driver;
#[cfg(target_os = "linux")]
mod fake_kubelet;
#[cfg(target_os = "linux")]
mod health;
#[cfg(target_os = "linux")]
mod registration;
#[cfg(target_os = "linux")]
mod socket;

#[cfg(target_os = "linux")]
mod patience;

#[cfg(target_os = "linux")]
use patience::{BOUND, eventually};
