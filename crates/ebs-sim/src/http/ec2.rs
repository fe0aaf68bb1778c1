//! The EC2 endpoint: one request in, one answer out, one line in the ledger.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};

#[cfg(doc)]
use super::Broken;
use super::broken;
use super::line::Line;
use crate::api::{Call, Fault, Reply};
use crate::config::AccessKey;
use crate::engine::{Answer, Engine, Served};
use crate::ledger::{Ledger, LedgerPage};
use crate::wire::decode::decode;
use crate::wire::encode::encode;
use crate::wire::params::Params;
use crate::wire::refusal;
use crate::wire::sigv4::{self, Signed};

/// Largest body; EC2's own requests of this kind stay far below.
const MAX_BODY: usize = 1 << 20;

/// How long a client may take to send its body.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// The EC2 Query API over an engine, as a value: HTTP requests in, HTTP answers out, with no socket in between.
///
/// The listener of a [`crate::Server`] answers through it, and so may an HTTP client's in-process connector. Clones
/// share engine and ledger.
#[derive(Debug, Clone)]
pub struct Ec2Service {
    engine: Engine,
    access_key: Option<AccessKey>,
    ledger: Arc<Ledger>,
}

impl Ec2Service {
    /// Over an engine, with a ledger of its own. Any credentials are accepted.
    pub fn new(engine: Engine) -> Self {
        Self::with(engine, None, Arc::new(Ledger::default()))
    }

    /// The same service, which accepts only requests signed with this key.
    pub fn with_access_key(self, key: AccessKey) -> Self {
        Self { access_key: Some(key), ..self }
    }

    pub(crate) fn with(engine: Engine, access_key: Option<AccessKey>, ledger: Arc<Ledger>) -> Self {
        Self { engine, access_key, ledger }
    }

    /// The calls from number `since` on.
    pub fn ledger(&self, since: u64) -> LedgerPage {
        self.ledger.since(since)
    }

    /// Answers one request, and writes it down in the ledger. Whatever comes in, a document of EC2 goes out.
    ///
    /// Dropped in mid-call, the call is carried out and written down all the same, as when a client hangs up. What
    /// fault rules do to the connection itself is said by [`Broken`] in the extensions of the answer.
    pub async fn answer(&self, request: Request<Bytes>) -> Response<Bytes> {
        let arrived = self.engine.now();
        let request_id = request_id();
        let (parts, body) = request.into_parts();
        if let Err(fault) = acceptable(&parts, &body) {
            return respond(&Err(fault), &request_id);
        }
        let line = Line::of(&parts, &body, &request_id);
        let ledger = Arc::clone(&self.ledger);
        match self.call(&parts, &body) {
            Ok(call) => {
                let witness = move |served: &Served| ledger.record(line.answered(served));
                carry(self.engine.serve(call, witness).await.answer, &request_id)
            }
            Err(fault) => {
                ledger.record(line.refused(arrived, &fault));
                respond(&Err(fault), &request_id)
            }
        }
    }

    /// Authenticates and decodes.
    fn call(&self, parts: &Parts, body: &[u8]) -> Result<Call, Fault> {
        let query = parts.uri.query().unwrap_or("");
        if let Some(key) = &self.access_key {
            let signed =
                Signed { method: parts.method.as_str(), path: parts.uri.path(), query, headers: &parts.headers, body };
            sigv4::check(&signed, key, &self.engine.config().region, SystemTime::now())?;
        }
        decode(Params::parse(&form(query, body)?)?)
    }

    /// The service as an application of a listener.
    pub(crate) fn router(self) -> Router {
        Router::new().fallback(receive).with_state(self)
    }
}

/// Whether it is a request to this API at all.
fn acceptable(parts: &Parts, body: &[u8]) -> Result<(), Fault> {
    if parts.method != Method::POST && parts.method != Method::GET {
        return Err(Fault::with_status(405, "InvalidRequest", "Only GET and POST are allowed."));
    }
    if !matches!(parts.uri.path(), "" | "/") {
        return Err(Fault::with_status(404, "InvalidRequest", "There is nothing but / here."));
    }
    if body.len() > MAX_BODY { Err(too_large()) } else { Ok(()) }
}

fn too_large() -> Fault {
    Fault::with_status(413, "RequestEntityTooLarge", format!("The body has more than {MAX_BODY} bytes."))
}

/// The parameters, wherever they are.
pub(super) fn form(query: &str, body: &[u8]) -> Result<String, Fault> {
    let body = std::str::from_utf8(body)
        .map_err(|_| Fault::with_status(404, "MalformedQueryString", "The body is not UTF-8."))?;
    Ok(format!("{query}&{body}"))
}

async fn receive(State(service): State<Ec2Service>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let response = match read(body).await {
        Ok(body) => service.answer(Request::from_parts(parts, body)).await,
        Err(fault) => respond(&Err(fault), &request_id()),
    };
    broken::on_the_wire(response)
}

async fn read(body: Body) -> Result<Bytes, Fault> {
    match tokio::time::timeout(BODY_WITHIN, Limited::new(body, MAX_BODY).collect()).await {
        Err(_) => Err(Fault::with_status(408, "RequestTimeout", "The body did not arrive in time.")),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(Fault::new("InvalidRequest", format!("The body cannot be read: {error}"))),
    }
}

/// What leaves: an answer, an unreadable one, or none.
fn carry(answer: Answer, request_id: &str) -> Response<Bytes> {
    match answer {
        Answer::Told(result) => respond(&result, request_id),
        Answer::Mangled(result, how) => broken::mangle(respond(&result, request_id), how),
        Answer::Silence => broken::silence(),
    }
}

fn respond(result: &Result<Reply, Fault>, request_id: &str) -> Response<Bytes> {
    let (status, body) = match result {
        Ok(reply) => (StatusCode::OK, encode(reply, request_id)),
        Err(fault) => {
            let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (status, refusal::body(fault, request_id))
        }
    };
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/xml;charset=UTF-8"));
    if let Ok(value) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert("x-amzn-requestid", value);
    }
    response
}

/// A random id in the shape of EC2's.
fn request_id() -> String {
    let text = hex::encode(rand::random::<[u8; 16]>());
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}
