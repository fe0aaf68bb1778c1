//! The EC2 endpoint. Each request gets one response and one line in the ledger.

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
use super::line::{Line, form};
use crate::api::query::Params;
use crate::api::{Call, Fault, Reply};
use crate::config::{AccessKey, ValidKey};
use crate::engine::{CallResponse, Engine, Served};
use crate::iam::Caller;
use crate::ledger::{Ledger, LedgerPage};
use crate::wire::decode::decode;
use crate::wire::dialect::Dialect;
use crate::wire::encode::encode;
use crate::wire::sigv4::{self, Signed};
use crate::wire::{cluster_nodes, identity};

/// Maximum body size in bytes. Real requests to EC2 are much smaller.
const MAX_BODY: usize = 1 << 20;

const BODY_WITHIN: Duration = Duration::from_secs(30);

/// The EC2 Query API of an engine, without a socket: it answers HTTP requests with HTTP responses. Clones share
/// everything.
#[derive(Debug, Clone)]
pub struct Ec2Service {
    engine: Engine,
    key: ValidKey,
    ledger: Arc<Ledger>,
}

impl Ec2Service {
    /// Creates the service for an engine, with its own ledger. It accepts any credentials.
    pub fn new(engine: Engine) -> Self {
        Self::with(engine, ValidKey::default(), Arc::new(Ledger::default()))
    }

    /// Makes the service accept only requests that are signed with this key.
    pub fn with_access_key(self, key: AccessKey) -> Self {
        Self { key: ValidKey::new(Some(key)), ..self }
    }

    pub(crate) fn with(engine: Engine, key: ValidKey, ledger: Arc<Ledger>) -> Self {
        Self { engine, key, ledger }
    }

    /// Returns the recorded calls from number `since` on.
    pub fn ledger(&self, since: u64) -> LedgerPage {
        self.ledger.since(since)
    }

    /// Serves one request and records it in the ledger, even when the future is dropped. Any input results in an EC2
    /// document. [`Broken`] in the response's extensions is the effect of fault rules on the connection.
    pub async fn answer(&self, request: Request<Bytes>) -> Response<Bytes> {
        let mut response = self.serve(request).await;
        let date = httpdate::fmt_http_date(self.engine.now());
        response.headers_mut().insert(header::DATE, HeaderValue::from_str(&date).expect("a date is ASCII"));
        response
    }

    async fn serve(&self, request: Request<Bytes>) -> Response<Bytes> {
        let arrived = self.engine.now();
        let request_id = self.engine.request_id();
        let (parts, body) = request.into_parts();
        if let Err(fault) = acceptable(&parts, &body) {
            return respond(Dialect::Ec2, &Err(fault), &request_id);
        }
        let line = Line::of(&parts, &body, &request_id);
        let form = form(parts.uri.query().unwrap_or(""), &body);
        let dialect = Dialect::of(&parts.headers, form.as_deref().unwrap_or(""));
        let asked = self.admitted(&parts, &body, dialect).and_then(|()| decode_request(dialect, &parts, &body, form));
        let ledger = Arc::clone(&self.ledger);
        match asked {
            Ok(ServiceRequest::Call(call)) => {
                let caller = Caller::Client(line.access_key().map(str::to_owned));
                let witness = move |served: &Served| ledger.record(line.answered(served));
                carry(dialect, self.engine.serve(caller, *call, witness).await.answer, &request_id)
            }
            Ok(ServiceRequest::Identity) => {
                let account = self.engine.snapshot_of_state().await.instances.into_iter().next().map(|i| i.owner_id);
                let body = identity::caller(&account.unwrap_or_default(), line.access_key().unwrap_or(""), &request_id);
                ledger.record(line.entry(arrived));
                document(dialect, StatusCode::OK, body, &request_id)
            }
            Err(fault) => {
                ledger.record(line.refused(arrived, &fault));
                respond(dialect, &Err(fault), &request_id)
            }
        }
    }

    fn admitted(&self, parts: &Parts, body: &[u8], dialect: Dialect) -> Result<(), Fault> {
        let keys = self.key.get();
        let Some(current) = &keys.current else { return Ok(()) };
        let signed = Signed {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or(""),
            headers: &parts.headers,
            body,
        };
        let scope = (dialect.signing_name(), self.engine.config().region.as_str());
        // Accept the real and the simulated time: a client may set its clock by our `Date`, and our clock can jump.
        let by = |key, now| sigv4::check(&signed, key, scope, now);
        let with = |key| by(key, SystemTime::now()).or_else(|_| by(key, self.engine.now()));
        let is_expired = || keys.expired.iter().any(|key| with(key).is_ok());
        with(current).map_err(|fault| if is_expired() { sigv4::expired() } else { fault })
    }

    pub(crate) fn router(self) -> Router {
        Router::new().fallback(receive).with_state(self)
    }
}

enum ServiceRequest {
    Call(Box<Call>),
    /// GetCallerIdentity of STS.
    Identity,
}

fn decode_request(
    dialect: Dialect,
    parts: &Parts,
    body: &[u8],
    form: Result<String, Fault>,
) -> Result<ServiceRequest, Fault> {
    match dialect {
        Dialect::SageMaker => {
            let target = parts.headers.get(cluster_nodes::TARGET).and_then(|value| value.to_str().ok());
            Ok(ServiceRequest::Call(Box::new(cluster_nodes::decode(target.unwrap_or_default(), body)?)))
        }
        Dialect::Ec2 => Ok(ServiceRequest::Call(Box::new(decode(Params::parse(&form?)?)?))),
        Dialect::Sts => match Params::parse(&form?)?.text("Action").as_deref() {
            Some(identity::ACTION) => Ok(ServiceRequest::Identity),
            other => Err(Fault::new("InvalidAction", format!("Could not find operation {}.", other.unwrap_or("")))),
        },
    }
}

fn acceptable(parts: &Parts, body: &[u8]) -> Result<(), Fault> {
    if parts.method != Method::POST && parts.method != Method::GET {
        return Err(Fault::with_status(405, "InvalidRequest", "Only GET and POST are allowed."));
    }
    if !matches!(parts.uri.path(), "" | "/") {
        return Err(Fault::with_status(404, "InvalidRequest", "The only valid path is /."));
    }
    if body.len() > MAX_BODY { Err(too_large()) } else { Ok(()) }
}

fn too_large() -> Fault {
    Fault::with_status(413, "RequestEntityTooLarge", format!("The body has more than {MAX_BODY} bytes."))
}

async fn receive(State(service): State<Ec2Service>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let response = match read(body).await {
        Ok(body) => service.answer(Request::from_parts(parts, body)).await,
        Err(fault) => respond(Dialect::Ec2, &Err(fault), &service.engine.request_id()),
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

/// Returns the response, which a fault rule may have made empty or unreadable.
fn carry(dialect: Dialect, answer: CallResponse, request_id: &str) -> Response<Bytes> {
    match answer {
        CallResponse::Delivered(result) => respond(dialect, &result, request_id),
        CallResponse::Corrupted(result, how) => broken::corrupt(respond(dialect, &result, request_id), how),
        CallResponse::Silence => broken::silence(),
    }
}

fn respond(dialect: Dialect, result: &Result<Reply, Fault>, request_id: &str) -> Response<Bytes> {
    let (status, body) = match result {
        Ok(reply) if dialect == Dialect::SageMaker => (StatusCode::OK, cluster_nodes::encode(reply)),
        Ok(reply) => (StatusCode::OK, encode(reply, request_id)),
        Err(fault) => {
            let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (status, dialect.refusal(fault, request_id))
        }
    };
    document(dialect, status, body, request_id)
}

fn document(dialect: Dialect, status: StatusCode, body: String, request_id: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(dialect.content_type()));
    if let Ok(value) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert("x-amzn-requestid", value);
    }
    response
}
