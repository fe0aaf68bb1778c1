//! One version of one group as a gRPC service. It finds the method, runs its operation on a thread that may block, and
//! counts and records each call.

mod body;
mod deadline;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use csi_proto::csi_proxy::{Group, Version};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};
use winstorage::Storage;
use winstorage::service::DiskBusy;

use crate::api::{Around, Method, Understood, Work, methods};
use crate::audit::{Asked, Audit, Outcome};
use crate::connection::ConnectionInfo;
use crate::metrics::Metrics;
use crate::peer::Peer;
use crate::pool::{NotRun, Pool};
use crate::status::{Failure, MALFORMED, OK, name_of};
pub use body::Bare;

/// Maximum number of concurrent operations. Each has its own thread, and more operations wait.
pub(crate) const OPERATIONS: usize = 32;
/// Maximum number of waiting operations. More operations are rejected.
pub(crate) const QUEUE: usize = 256;

/// The maximum time that a call without a deadline waits for a disk. The kubelet uses the same limit for its calls to a
/// node plugin.
const LONGEST_DISK_WAIT: Duration = Duration::from_secs(2 * 60);

pub(crate) struct Shared {
    pub(crate) storage: Arc<Storage>,
    pub(crate) audit: Audit,
    pub(crate) metrics: Arc<Metrics>,
    /// Running operations. They continue when their clients disconnect.
    pub(crate) running: TaskTracker,
    pub(crate) pool: Pool,
}

#[derive(Clone)]
pub(crate) struct GroupService(Arc<Inner>);

struct Inner {
    group: Group,
    version: Version,
    /// `v1.Disk`
    name: String,
    methods: BTreeMap<&'static str, Method>,
    shared: Arc<Shared>,
}

#[derive(Clone)]
struct Call {
    service: Arc<Inner>,
    method: &'static str,
    client: Arc<Peer>,
    /// Whether the whole message has arrived. If so, `understand` counts and records the call.
    understood: Arc<AtomicBool>,
}

impl GroupService {
    pub(crate) fn new(group: Group, version: Version, shared: Arc<Shared>) -> Self {
        let methods = methods(group, version).into_iter().map(|method| (method.name, method)).collect();
        let name = format!("{version}.{}", group.service());
        Self(Arc::new(Inner { group, version, name, methods, shared }))
    }
}

impl tower::Service<http::Request<Body>> for GroupService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = Arc::clone(&self.0);
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

impl Inner {
    async fn answer(self: Arc<Self>, request: http::Request<Body>) -> http::Response<Body> {
        let connection = request.extensions().get::<ConnectionInfo>().cloned();
        let client = connection.as_ref().map(|info| Arc::clone(&info.peer)).unwrap_or_default();
        let Some(method) = self.find(request.uri().path()) else {
            return self.unknown(request.uri().path(), client).into_http();
        };
        if let Some(connection) = connection {
            connection.pace.next().await;
        }
        self.shared.metrics.started(self.service_of(method), method);
        let understood = Arc::new(AtomicBool::new(false));
        let call = Call { service: Arc::clone(&self), method, client, understood: Arc::clone(&understood) };
        let began = Instant::now();
        let response = Grpc::new(Bare).unary(call.clone(), request).await;
        if !understood.load(Ordering::Acquire) {
            // Without a message, the request was truncated, too large, compressed, or not gRPC.
            let status = response.extensions().get::<Status>();
            let outcome = Outcome {
                code: status.map_or(MALFORMED, name_of),
                error: status.map(|status| status.message().to_owned()),
                native: None,
            };
            call.ended(self.shared.audit.id(), &call.asked(Value::Null), &outcome, began);
        }
        response
    }

    fn find(&self, path: &str) -> Option<&'static str> {
        let (service, method) = path.strip_prefix('/')?.split_once('/')?;
        let (name, _) = self.methods.get_key_value(method)?;
        (self.service_of(name) == service).then_some(*name)
    }

    fn service_of(&self, method: &'static str) -> &str {
        self.methods[method].service.unwrap_or(&self.name)
    }

    fn unknown(&self, path: &str, client: Arc<Peer>) -> Status {
        let failure = Failure::Unimplemented(format!("unknown method {path}; this pipe serves {}", self.name));
        let asked = Asked {
            group: self.group.token(),
            version: self.version.to_string(),
            method: path.to_owned(),
            request: Value::Null,
            client,
        };
        let outcome = Outcome::of(&Err(failure.clone()));
        self.shared.audit.end(self.shared.audit.id(), &asked, &outcome, Duration::ZERO);
        failure.status()
    }
}

impl UnaryService<Bytes> for Call {
    type Response = Vec<u8>;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Vec<u8>>, Status>> + Send>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let call = self.clone();
        call.understood.store(true, Ordering::Release);
        Box::pin(async move { call.run(request).await.map(Response::new).map_err(|failure| failure.status()) })
    }
}

impl Call {
    /// Runs the operation as a separate task. A client that disconnects, or whose deadline passes, ends only its own
    /// wait.
    async fn run(self, request: Request<Bytes>) -> Result<Vec<u8>, Failure> {
        let began = Instant::now();
        let deadline = deadline::given(request.metadata());
        let running = self.service.shared.running.clone();
        let operation = running.spawn(async move {
            let result = self.understand(request.into_inner());
            let (id, asked, work) = match result {
                Ok((asked, work)) => (self.service.shared.audit.id(), asked, work),
                Err(failure) => (self.service.shared.audit.id(), self.asked(Value::Null), Err(failure)),
            };
            if self.method().writes && work.is_ok() {
                self.service.shared.audit.begin(id, &asked);
            }
            let result = match work {
                Ok(work) => self.operate(work, deadline).await,
                Err(failure) => Err(failure),
            };
            self.ended(id, &asked, &Outcome::of(&result), began);
            result
        });
        operation.await.unwrap_or(Err(Failure::Panicked))
    }

    fn method(&self) -> &Method {
        &self.service.methods[self.method]
    }

    fn understand(&self, body: Bytes) -> Result<(Asked, Result<Work, Failure>), Failure> {
        let Understood { fields, work } = (self.method().read)(body)
            .map_err(|error| Failure::Malformed(format!("request of {}: {error}", self.method)))?;
        self.service.shared.metrics.received(self.service.service_of(self.method), self.method);
        Ok((self.asked(fields), work))
    }

    /// Runs the work when a thread and its disk are free. Occupies no thread while it waits for the disk.
    async fn operate(&self, work: Work, deadline: Option<Duration>) -> Result<Vec<u8>, Failure> {
        let began = Instant::now();
        let end = began + deadline.unwrap_or(LONGEST_DISK_WAIT);
        loop {
            let failure = match self.once(&work, deadline, began).await {
                Err(failure) => failure,
                answer => return answer,
            };
            let Some(busy) = failure.busy() else { return Err(failure) };
            let (released, wait) = oneshot::channel();
            let wake = move || {
                // Sending fails if the deadline has passed, because the receiver no longer exists.
                let _ignored = released.send(());
            };
            let Some(_waiting) = self.service.shared.storage.on_release(busy.disk, wake) else {
                return Err(Failure::Busy(format!(
                    "csi-proxy: {busy}, and another call is waiting for it; nothing was done"
                )));
            };
            if timeout_at(end, wait).await.is_err() {
                let held = busy.held + began.elapsed();
                let busy = DiskBusy { held, ..busy };
                return Err(Failure::Late(format!("csi-proxy: the deadline passed while {busy}; nothing was done")));
            }
        }
    }

    async fn once(&self, work: &Work, deadline: Option<Duration>, began: Instant) -> Result<Vec<u8>, Failure> {
        let shared = &self.service.shared;
        let (storage, work) = (Arc::clone(&shared.storage), Arc::clone(work));
        let run = move |_| {
            let patience = deadline::patience(deadline, began.elapsed());
            work(&Around { storage: &storage, patience })
        };
        let left = deadline.map(|deadline| deadline.saturating_sub(began.elapsed()));
        match shared.pool.run(left, run).await {
            Ok(result) => result,
            Err(NotRun::Panicked(error)) => {
                tracing::error!(service = self.service.name, method = self.method, %error, "call panicked");
                Err(Failure::Panicked)
            }
            Err(full @ NotRun::Full { .. }) => Err(Failure::Busy(full.to_string())),
            Err(late @ NotRun::Late { .. }) => Err(Failure::Late(late.to_string())),
        }
    }

    fn asked(&self, request: Value) -> Asked {
        Asked {
            group: self.service.group.token(),
            version: self.service.version.to_string(),
            method: self.method.to_owned(),
            request,
            client: Arc::clone(&self.client),
        }
    }

    fn ended(&self, id: u64, asked: &Asked, outcome: &Outcome, began: Instant) {
        let (shared, took) = (&self.service.shared, began.elapsed());
        shared.metrics.handled(self.service.service_of(self.method), self.method, outcome.code, took);
        shared.audit.end(id, asked, outcome, took);
    }
}

impl Outcome {
    fn of(result: &Result<Vec<u8>, Failure>) -> Self {
        match result {
            Ok(_) => Self { code: OK, error: None, native: None },
            Err(failure) => {
                Self { code: name_of(&failure.status()), error: Some(failure.text()), native: failure.native() }
            }
        }
    }
}
