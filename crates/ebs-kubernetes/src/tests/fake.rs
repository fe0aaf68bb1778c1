//! An in-memory API server for tests on paused time. It simulates behaviour that a real server cannot show on demand:
//! being busy, hanging or losing state. It has one kind of object per path, with versions and watches. Calls reach it
//! after the client's limits have been applied.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tower::{BoxError, Service};

use crate::Cluster;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ask {
    List,
    Watch,
    Get,
    Create,
    Replace,
    Patch,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The server responds with an error that has this status code.
    Code(u16),
    /// The server responds with 429 and this Retry-After in seconds.
    Busy(u64),
    /// The server never answers the request.
    Hang,
    /// The watch starts and then breaks.
    Cut,
    /// The server rejects the watch because its resource version is too old.
    Expired,
    /// The write succeeds, but its response is lost.
    LostAnswer,
}

/// How many times a fault occurs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Times {
    Once,
    Always,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct FakeApi(Arc<Mutex<State>>, Arc<AtomicBool>);

#[derive(Debug, Default)]
struct State {
    version: u64,
    /// Objects by path, such as `/api/v1/nodes/a`.
    objects: BTreeMap<String, Value>,
    watches: Vec<Watch>,
    faults: BTreeMap<(Ask, &'static str), VecDeque<(Fault, Times)>>,
    asked: Vec<(Instant, Ask, String)>,
    /// A write that another client makes right before the next patch.
    before_patch: Option<(String, Value)>,
    /// How long responses to creations and replacements are delayed.
    late: Duration,
}

/// An open watch.
#[derive(Debug)]
struct Watch {
    /// The path of the watched list.
    of: String,
    /// The name of the watched object, if the watch is for a single one.
    name: Option<String>,
    sender: mpsc::UnboundedSender<Result<Bytes, BoxError>>,
}

/// A complete body or the body of a watch.
pub(crate) enum FakeBody {
    Whole(Option<Bytes>),
    Goes(mpsc::UnboundedReceiver<Result<Bytes, BoxError>>),
}

pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
pub(crate) const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

impl FakeApi {
    pub(crate) fn cluster(&self) -> Cluster {
        Cluster::over(self.clone(), "default")
    }

    /// Returns the same server for another client, which has its own connection and its own limits.
    pub(crate) fn another(&self) -> Self {
        Self(Arc::clone(&self.0), Arc::default())
    }

    /// Cuts this client's connection: from now on, the server answers none of its requests.
    pub(crate) fn cut(&self) {
        self.1.store(true, Ordering::Relaxed);
    }

    pub(crate) fn delay_answers_to_writes(&self, late: Duration) {
        self.0.lock().unwrap().late = late;
    }

    /// Creates or replaces an object of the list `kind` and notifies the watches.
    pub(crate) fn put(&self, kind: &str, name: &str, mut object: Value) {
        let mut state = self.0.lock().unwrap();
        object["metadata"]["name"] = json!(name);
        state.write(format!("{kind}/{name}"), object);
    }

    pub(crate) fn delete(&self, kind: &str, name: &str) {
        let mut state = self.0.lock().unwrap();
        let path = format!("{kind}/{name}");
        if let Some(object) = state.objects.remove(&path) {
            state.version += 1;
            state.tell("DELETED", &path, &object);
        }
    }

    pub(crate) fn object(&self, kind: &str, name: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.get(&format!("{kind}/{name}")).cloned()
    }

    pub(crate) fn fault(&self, ask: Ask, kind: &'static str, fault: Fault, times: Times) {
        self.0.lock().unwrap().faults.entry((ask, kind)).or_default().push_back((fault, times));
    }

    pub(crate) fn clear_faults(&self) {
        self.0.lock().unwrap().faults.clear();
    }

    pub(crate) fn write_before_patch(&self, kind: &str, name: &str, mut object: Value) {
        object["metadata"]["name"] = json!(name);
        self.0.lock().unwrap().before_patch = Some((format!("{kind}/{name}"), object));
    }

    pub(crate) fn asked(&self, ask: Ask, kind: &str) -> Vec<Instant> {
        let state = self.0.lock().unwrap();
        let asked = state.asked.iter().filter(|(_, what, path)| *what == ask && path.starts_with(kind));
        asked.map(|(when, _, _)| *when).collect()
    }

    pub(crate) fn watches(&self) -> usize {
        self.0.lock().unwrap().watches.iter().filter(|watch| !watch.sender.is_closed()).count()
    }
}

impl State {
    fn write(&mut self, path: String, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let kind = if self.objects.insert(path.clone(), object.clone()).is_some() { "MODIFIED" } else { "ADDED" };
        self.tell(kind, &path, &object);
    }

    fn tell(&mut self, kind: &str, path: &str, object: &Value) {
        let line = line(kind, object);
        for Watch { of, name, sender } in &self.watches {
            let list = path.rsplit_once('/').map(|(list, _)| list);
            if list == Some(of) && name.as_ref().is_none_or(|name| path.ends_with(&format!("/{name}"))) {
                let _ = sender.send(Ok(line.clone()));
            }
        }
    }

    fn fault_of(&mut self, ask: Ask, path: &str) -> Option<Fault> {
        let (_, faults) = self.faults.iter_mut().find(|((of, kind), _)| *of == ask && path.starts_with(kind))?;
        match faults.front()? {
            (fault, Times::Always) => Some(*fault),
            (fault, Times::Once) => {
                let fault = *fault;
                faults.pop_front();
                Some(fault)
            }
        }
    }

    fn answer(&mut self, ask: Ask, path: &str, query: &Query, body: &Value) -> Response<FakeBody> {
        match ask {
            Ask::Get => self.objects.get(path).map_or_else(|| status(404, "not found"), |object| whole(200, object)),
            Ask::Patch => self.patch(path, body),
            Ask::Create => {
                let path = format!("{path}/{}", body["metadata"]["name"].as_str().expect("a name"));
                if self.objects.contains_key(&path) { status(409, "it exists") } else { self.stored(path, body) }
            }
            Ask::Replace => {
                let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
                let is_current = self.objects.get(path).is_some_and(|object| version(object) == version(body));
                if is_current { self.stored(path.to_owned(), body) } else { status(409, "it has changed") }
            }
            Ask::List => {
                let of = format!("{path}/");
                let items: Vec<&Value> = self
                    .objects
                    .range(of.clone()..)
                    .map_while(|(at, object)| at.starts_with(&of).then_some((at, object)))
                    .filter(|(at, _)| query.name.as_ref().is_none_or(|name| at.ends_with(&format!("/{name}"))))
                    .map(|(_, object)| object)
                    .collect();
                let begin = query.from.min(items.len());
                let end = query.limit.map_or(items.len(), |limit| (begin + limit).min(items.len()));
                let mut metadata = json!({ "resourceVersion": self.version.to_string() });
                if end < items.len() {
                    metadata["continue"] = json!(end.to_string());
                }
                whole(
                    200,
                    &json!({ "kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items[begin..end] }),
                )
            }
            Ask::Watch => {
                let (sender, receiver) = mpsc::unbounded_channel();
                self.watches.push(Watch { of: path.to_owned(), name: query.name.clone(), sender });
                Response::new(FakeBody::Goes(receiver))
            }
        }
    }

    fn stored(&mut self, path: String, object: &Value) -> Response<FakeBody> {
        self.write(path.clone(), object.clone());
        whole(200, &self.objects[&path])
    }

    fn patch(&mut self, path: &str, patch: &Value) -> Response<FakeBody> {
        if let Some((path, object)) = self.before_patch.take() {
            self.write(path, object);
        }
        let Some(object) = self.objects.get(path) else { return status(404, "not found") };
        match apply(patch, object) {
            Some(changed) => {
                self.write(path.to_owned(), changed);
                whole(200, &self.objects[path])
            }
            None => status(422, "a test failed"),
        }
    }
}

/// Applies a JSON patch that consists of tests and replacements. Returns `None` if one of its tests fails.
pub(crate) fn apply(patch: &Value, object: &Value) -> Option<Value> {
    let mut object = object.clone();
    for step in patch.as_array().expect("a list of steps") {
        let path = step["path"].as_str().expect("a path");
        match step["op"].as_str().expect("an operation") {
            "test" => (object.pointer(path) == Some(&step["value"])).then_some(())?,
            "replace" => *object.pointer_mut(path)? = step["value"].clone(),
            other => panic!("{other} is not used"),
        }
    }
    Some(object)
}

#[derive(Debug, Default)]
struct Query {
    is_watch: bool,
    name: Option<String>,
    limit: Option<usize>,
    from: usize,
}

impl Query {
    fn of(text: &str) -> Self {
        let mut query = Self::default();
        for (key, value) in text.split('&').filter_map(|pair| pair.split_once('=')) {
            match key {
                "watch" => query.is_watch = value == "true",
                "fieldSelector" => query.name = value.strip_prefix("metadata.name%3D").map(str::to_owned),
                "limit" => query.limit = value.parse().ok(),
                "continue" => query.from = value.parse().unwrap_or_default(),
                _ => {}
            }
        }
        query
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    let mut line = json!({ "type": kind, "object": object }).to_string();
    line.push('\n');
    Bytes::from(line)
}

fn whole(code: u16, body: &Value) -> Response<FakeBody> {
    let body = FakeBody::Whole(Some(Bytes::from(body.to_string())));
    Response::builder().status(code).body(body).unwrap()
}

fn status(code: u16, message: &str) -> Response<FakeBody> {
    let reason = if code == 404 { "NotFound" } else { "Fake" };
    whole(code, &json!({ "kind": "Status", "status": "Failure", "code": code, "message": message, "reason": reason }))
}

impl Service<Request<Body>> for FakeApi {
    type Response = Response<FakeBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let api = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let path = parts.uri.path().to_owned();
            let query = Query::of(parts.uri.query().unwrap_or_default());
            let body = body.collect_bytes().await?;
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let is_list = [NODES, CSI_NODES, ATTACHMENTS].contains(&path.as_str());
            let ask = match parts.method.as_str() {
                "PATCH" => Ask::Patch,
                "POST" => Ask::Create,
                "PUT" => Ask::Replace,
                _ if is_list && query.is_watch => Ask::Watch,
                _ if is_list => Ask::List,
                _ => Ask::Get,
            };
            let fault = {
                let mut state = api.0.lock().unwrap();
                state.asked.push((Instant::now(), ask, path.clone()));
                state.fault_of(ask, &path)
            };
            if api.1.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            let answer = || api.0.lock().unwrap().answer(ask, &path, &query, &body);
            let (sender, receiver) = mpsc::unbounded_channel();
            match fault {
                None => {
                    let (answer, late) = (answer(), api.0.lock().unwrap().late);
                    if matches!(ask, Ask::Create | Ask::Replace) {
                        tokio::time::sleep(late).await;
                    }
                    Ok(answer)
                }
                Some(Fault::Code(code)) => Ok(status(code, "as the test wants")),
                Some(Fault::Busy(seconds)) => {
                    let mut busy = status(429, "busy");
                    busy.headers_mut().insert("retry-after", seconds.into());
                    Ok(busy)
                }
                Some(Fault::Hang) => std::future::pending().await,
                Some(Fault::Cut) => {
                    let _ = sender.send(Err("connection reset".into()));
                    Ok(Response::new(FakeBody::Goes(receiver)))
                }
                Some(Fault::Expired) => {
                    let gone = json!({ "kind": "Status", "status": "Failure", "code": 410, "message": "too old", "reason": "Expired" });
                    let _ = sender.send(Ok(line("ERROR", &gone)));
                    Ok(Response::new(FakeBody::Goes(receiver)))
                }
                Some(Fault::LostAnswer) => {
                    drop(answer());
                    Err("connection reset".into())
                }
            }
        })
    }
}

impl http_body::Body for FakeBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Goes(receiver) => {
                receiver.poll_recv(context).map(|frame| frame.map(|result| result.map(Frame::data)))
            }
        }
    }
}
