//! Converts the SDK's errors to the port's errors.

use std::error::Error;
use std::sync::Arc;

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_types::request_id::RequestId;
use ebs_ec2::{Action, Ec2Error, ErrorClass};
use http_body_util::LengthLimitError;

use crate::call_monitor::{MAX_REPLY, TooLarge};
use crate::causes::find;
use crate::classify;
use crate::credentials::NoCredentials;

/// How many characters of an unreadable reply the message quotes.
const EXCERPT: usize = 160;

/// Converts an SDK error. `endpoint` is the request's destination, if the SDK handed a request to the connection.
pub(crate) fn translate<E>(action: Action, error: SdkError<E, HttpResponse>, endpoint: Option<&str>) -> Ec2Error
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    match error {
        SdkError::ServiceError(context) => {
            let raw = context.raw();
            let Some(code) = context.err().code().map(str::to_owned) else {
                return unreadable(action, &describe_reply(action, raw), request_id(raw), context.into_err().into());
            };
            let message = context.err().message().unwrap_or("(no message)");
            let class = classify::by_code(action, raw.status().as_u16(), &code, message);
            Ec2Error { code: Some(code), request_id: request_id(raw), ..Ec2Error::new(action, class, message) }
        }
        SdkError::ResponseError(context) => {
            let reply = describe_reply(action, context.raw());
            let id = request_id(context.raw());
            let source = SdkError::<E, HttpResponse>::ResponseError(context).into_source().unwrap_or_else(Into::into);
            match too_large(source.as_ref()) {
                true => unreadable(action, &format!("a reply of more than {MAX_REPLY} bytes"), id, source),
                false => unreadable(action, &reply, id, source),
            }
        }
        error => {
            let timed_out = matches!(&error, SdkError::TimeoutError(_))
                || matches!(&error, SdkError::DispatchFailure(failure) if failure.is_timeout());
            let source = error.into_source().unwrap_or_else(Into::into);
            without_reply(action, source, endpoint, timed_out)
        }
    }
}

/// Returns the error for a well-formed reply that lacks a required field. The outcome of a mutation is then unknown.
pub(crate) fn incomplete(action: Action, what: &str, request_id: Option<&str>) -> Ec2Error {
    let class = if action.mutates() { ErrorClass::Ambiguous } else { ErrorClass::Other };
    let error = Ec2Error::new(action, class, format!("EC2's reply is not usable: {what}"));
    Ec2Error { request_id: request_id.map(str::to_owned), ..error }
}

fn unreadable(action: Action, reply: &str, request_id: Option<String>, source: BoxError) -> Ec2Error {
    let message = format!("{reply} is not a valid answer from EC2{}", open_outcome(action));
    let error = Ec2Error::new(action, ErrorClass::Ambiguous, message);
    Ec2Error { request_id, source: Some(Arc::from(source)), ..error }
}

fn without_reply(action: Action, source: BoxError, endpoint: Option<&str>, timed_out: bool) -> Ec2Error {
    let connected = endpoint.is_some() && !failed_to_connect(source.as_ref());
    let (class, message) = match NoCredentials::behind(source.as_ref()) {
        Some(reason @ (NoCredentials::Slow | NoCredentials::Away)) if !connected => {
            (ErrorClass::NotSent, reason.message().to_owned())
        }
        Some(reason) if !connected => (ErrorClass::Unauthenticated, reason.message().to_owned()),
        _ if connected && timed_out => (ErrorClass::Ambiguous, format!("no reply in time{}", open_outcome(action))),
        _ if connected => {
            (ErrorClass::Ambiguous, format!("the connection closed before the reply{}", open_outcome(action)))
        }
        _ => (ErrorClass::NotSent, not_sent(endpoint)),
    };
    Ec2Error { source: Some(Arc::from(source)), ..Ec2Error::new(action, class, message) }
}

fn not_sent(endpoint: Option<&str>) -> String {
    let Some(endpoint) = endpoint else { return "the request could not be built, so nothing was sent".to_owned() };
    format!("{endpoint} is unreachable, so nothing was sent; check the endpoint, name resolution and the network")
}

fn open_outcome(action: Action) -> &'static str {
    if action.mutates() { "; EC2 may have executed the call" } else { "" }
}

/// Returns true if no connection was established: refused, no route, unresolved name, failed TLS handshake, or timeout.
fn failed_to_connect(error: &(dyn Error + 'static)) -> bool {
    find::<hyper_util::client::legacy::Error>(error).is_some_and(hyper_util::client::legacy::Error::is_connect)
}

fn too_large(error: &(dyn Error + 'static)) -> bool {
    find::<TooLarge>(error).is_some() || find::<LengthLimitError>(error).is_some()
}

/// Describes a reply by its status and its beginning. Omits the beginning of STS's replies, which identify the caller.
fn describe_reply(action: Action, raw: &HttpResponse) -> String {
    let status = raw.status().as_u16();
    let Some(body) = raw.body().bytes() else { return format!("an incomplete reply with status {status}") };
    if body.is_empty() {
        return format!("a reply with status {status} and no body");
    }
    if action == Action::GetCallerIdentity {
        return format!("a reply with status {status}");
    }
    let text = String::from_utf8_lossy(body);
    let excerpt: String = text.chars().take(EXCERPT).collect();
    format!("a reply with status {status}, beginning with {excerpt:?},")
}

/// Returns the request id from the header, or else from the body, where EC2 has always written it.
pub(crate) fn request_id(raw: &HttpResponse) -> Option<String> {
    raw.headers().request_id().map(str::to_owned).or_else(|| {
        let body = std::str::from_utf8(raw.body().bytes()?).ok()?;
        let (_, rest) = ["<RequestID>", "<RequestId>", "<requestId>"].iter().find_map(|name| body.split_once(name))?;
        let (id, _) = rest.split_once("</")?;
        (!id.is_empty() && id.len() <= 128).then(|| id.to_owned())
    })
}
