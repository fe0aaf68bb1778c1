//! What is logged of a request: its summary when it comes in, and one line when it fails.
//!
//! The failure line is written once, at the boundary (`server::layer`), from the status that the caller gets, which
//! carries the whole chain of causes. Handlers log nothing about it.

use tonic::Request;
use tracing::Span;
use tracing::field::Empty;

use crate::redact::Summarize;

/// The span of one RPC; its fields are on every line that is logged for it. `subject` is filled by [`received`].
pub(crate) fn span(rpc: &str) -> Span {
    tracing::info_span!("rpc", rpc, subject = Empty)
}

/// Logs the request and takes it out of its envelope.
pub(crate) fn receive<R: Summarize>(request: Request<R>) -> R {
    let request = request.into_inner();
    received(&request);
    request
}

/// A request has been decoded: logs its summary, and names its subject in the span.
pub fn received(request: &impl Summarize) {
    let summary = request.summary();
    if !summary.subject().is_empty() {
        Span::current().record("subject", summary.subject());
    }
    tracing::debug!(rpc = summary.rpc().name(), subject = summary.subject(), request = %summary, "request");
}

/// An RPC has failed.
pub(crate) fn failed(rpc: &str, code: &str, message: &str, definite_fault: bool) {
    if definite_fault {
        tracing::error!(rpc, code, error = message, "request failed");
    } else {
        tracing::warn!(rpc, code, error = message, "request failed");
    }
}
