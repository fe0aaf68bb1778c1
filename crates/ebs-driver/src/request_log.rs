//! Logs requests. `server::layer` logs each failure once, from the status that the caller receives.

use tonic::Request;
use tracing::Span;
use tracing::field::Empty;

use crate::redact::Summarize;
use crate::rpc::service_from_path;
use crate::status::ResponseStatus;

/// Creates the span of one RPC, whose fields are in every log line of the RPC. [`receive`] sets `subject`.
///
/// Fields with a dot in their names are only for traces and follow OpenTelemetry's conventions.
pub(crate) fn span<B>(rpc: &'static str, request: &http::Request<B>) -> Span {
    let service = service_from_path(request.uri().path()).unwrap_or("unknown");
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    tracing::info_span!(
        "rpc",
        rpc,
        subject = Empty,
        otel.kind = "server",
        otel.name = format_args!("{service}/{rpc}"),
        otel.parent = header("traceparent"),
        otel.state = header("tracestate"),
        rpc.system = "grpc",
        rpc.service = service,
        rpc.method = rpc,
        rpc.grpc.status_code = Empty,
        csi.subject = Empty,
        otel.status_description = Empty,
        otel.end = Empty,
    )
}

/// Ends the current RPC's span in its trace. The RPC has been answered, even if its work continues.
pub(crate) fn traced(answer: &ResponseStatus) {
    let span = Span::current();
    span.record("rpc.grpc.status_code", answer.number);
    if let Some(message) = answer.failure.as_deref().filter(|_| answer.server_fault) {
        span.record("otel.status_description", message);
    }
    span.record("otel.end", true);
}

/// Logs the request and returns its message.
pub fn receive<R: Summarize>(request: Request<R>) -> R {
    let request = request.into_inner();
    let summary = request.summary();
    let subject = summary.subject.as_str();
    if !subject.is_empty() {
        Span::current().record("subject", subject).record("csi.subject", subject);
    }
    tracing::debug!(rpc = summary.rpc.name(), subject, request = %summary, "request");
    request
}

pub(crate) fn failed(rpc: &str, code: &str, message: &str, definite_fault: bool) {
    if definite_fault {
        tracing::error!(rpc, code, error = message, "request failed");
    } else {
        tracing::warn!(rpc, code, error = message, "request failed");
    }
}
