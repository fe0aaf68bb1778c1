//! Windows only: named pipes, the process of a client, the event log, and the resource usage of this process.
//!
//! This module contains all `unsafe` code of the crate. Each block has a SAFETY comment. Types own the handles and
//! allocations of Windows and release them on drop.

mod client;
mod event_log;
mod figures;
mod pipe;
mod security;

pub(crate) use client::own_user;
pub(crate) use event_log::EventLog;
pub(crate) use figures::process_figures;
pub(crate) use pipe::Pipes;
pub(crate) use security::Security;

/// Returns a string as UTF-16 with a terminating 0, as Windows' functions expect it.
fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain(std::iter::once(0)).collect()
}
