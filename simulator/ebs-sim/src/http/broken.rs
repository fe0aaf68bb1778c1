//! Incomplete responses, caused by fault rules.

use std::io;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderValue, Response, header};

use crate::faults::Corruption;

/// A response extension that makes the connection break before the response is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The connection breaks before the response.
    Silent,
    /// The connection breaks at the end of the body, although the header promises this many bytes.
    Short(usize),
}

/// A body that is neither XML nor UTF-8.
const GARBAGE: &[u8] = b"\xff\xfe<ebs <<garbage & \x00\x01 no document of EC2";

/// Returns a response that makes the connection break before anything is sent.
pub(super) fn silence() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
    response.extensions_mut().insert(Broken::Silent);
    response
}

pub(super) fn corrupt(response: Response<Bytes>, how: Corruption) -> Response<Bytes> {
    let (mut parts, body) = response.into_parts();
    let body = match how {
        Corruption::Garbage => Bytes::from_static(GARBAGE),
        Corruption::Truncated => {
            parts.extensions.insert(Broken::Short(body.len()));
            body.slice(..body.len() / 2)
        }
        Corruption::Oversized(bytes) => {
            let mut padded = body.to_vec();
            // Spaces after the document keep it well-formed.
            padded.resize(usize::try_from(bytes).unwrap_or(usize::MAX).max(body.len()), b' ');
            Bytes::from(padded)
        }
    };
    Response::from_parts(parts, body)
}

/// Converts the response for hyper. If the body is shorter than promised, the connection breaks after its last byte.
pub(super) fn on_the_wire(response: Response<Bytes>) -> Response<Body> {
    let Some(Broken::Short(whole)) = response.extensions().get().copied() else { return response.map(Body::from) };
    let mut response = response.map(|body| {
        let cut = stream::once(async {
            // Send the existing bytes before the connection breaks.
            tokio::task::yield_now().await;
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "broken by a fault rule"))
        });
        Body::from_stream(stream::iter([Ok(body)]).chain(cut))
    });
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(whole));
    response
}

/// Fails if the response requires a broken connection.
pub(super) fn or_break(response: Response<Body>) -> io::Result<Response<Body>> {
    match response.extensions().get() {
        Some(Broken::Silent) => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "broken by a fault rule")),
        _ => Ok(response),
    }
}
