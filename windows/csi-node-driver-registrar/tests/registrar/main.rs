//! Tests of the registrar program with a fake driver and a fake kubelet.

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
