//! Windows itself.
//!
//! Nothing below this line is proven by the tests of this repository but that it compiles, and what Wine does honestly.
//! What is sent and decided is in [`crate::wmi`] and [`crate::service`].

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

/// This machine.
pub type WindowsHost = WmiHost<ComWmi, Win32>;

/// This machine, ready for use from any number of threads: each opens its own connections to WMI when it first needs them.
///
/// `encrypt` asks COM for packet privacy, as some namespaces demand.
#[must_use]
pub fn windows_host(encrypt: bool) -> WindowsHost {
    if let Err(error) = privilege::allow_symbolic_links() {
        tracing::warn!(%error, "this process may not make symbolic links");
    }
    if encrypt {
        security::encrypt();
    }
    WmiHost::new(ComWmi::new(encrypt), Win32)
}

#[cfg(test)]
mod tests;
