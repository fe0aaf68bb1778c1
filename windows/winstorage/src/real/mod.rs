//! Implements the host's traits with Windows itself.
//!
//! The tests of this repository only prove that this module compiles, and that it works as far as Wine implements
//! Windows. All decisions are made in [`crate::wmi`] and [`crate::service`].

mod com;
mod device;
mod entry;
mod native;
mod open;
mod privilege;
mod security;
mod wide;

use crate::wmi::WmiHost;

pub use com::{ComWmi, disconnect};
pub use native::Win32;

pub type WindowsHost = WmiHost<ComWmi, Win32>;

/// Creates the machine, which any number of threads may use. Each thread opens its own WMI connections when it first
/// needs them.
///
/// `encrypt` requests packet privacy from COM, as some namespaces require.
pub fn windows_host(encrypt: bool) -> WindowsHost {
    if let Err(error) = privilege::allow_symbolic_links() {
        tracing::warn!(%error, "this process lacks the privilege to create symbolic links");
    }
    if encrypt {
        security::encrypt();
    }
    WmiHost::new(ComWmi::new(encrypt), Win32)
}

#[cfg(test)]
mod tests;
