//! What only Windows has: named pipes, the process at their other end, the event log, figures of a process.
//!
//! All `unsafe` code of this crate is below. Each block says why it is sound; handles and allocations of Windows are owned by
//! types whose end gives them back.

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

/// Text as Windows' functions take it, with its end.
fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain(std::iter::once(0)).collect()
}
