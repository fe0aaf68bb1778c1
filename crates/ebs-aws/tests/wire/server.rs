//! An HTTP server that returns prepared replies and records the requests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{AppendHeaders, IntoResponse, Response};
use ebs_aws::{AwsConfig, AwsEc2, Settings};
use ebs_ec2::{Action, Attempt, ErrorClass, Observation, Observer, VolumeQuery};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

#[derive(Clone)]
pub(crate) enum Reply {
    /// Status and body.
    Say(u16, String),
    /// Status, headers and body.
    SayWith(u16, Vec<(&'static str, String)>, String),
    /// The server reads the request and never answers.
    Hang,
}

impl Reply {
    pub(crate) fn ok(body: impl Into<String>) -> Self {
        Self::Say(200, body.into())
    }

    pub(crate) fn error(status: u16, code: &str, message: &str) -> Self {
        Self::Say(
            status,
            format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>{code}</Code>\
                 <Message>{message}</Message></Error></Errors><RequestID>req-of-{code}</RequestID></Response>"
            ),
        )
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The fields of the body, if it is a form.
    pub(crate) form: BTreeMap<String, String>,
}

#[derive(Default)]
struct Script {
    /// The replies, in order. The last one is repeated.
    replies: VecDeque<Reply>,
    requests: Vec<Request>,
}

/// An observer that records each call, and each attempt as text.
#[derive(Default)]
pub(crate) struct Seen(pub(crate) Mutex<Vec<(Action, Option<ErrorClass>)>>, pub(crate) Mutex<Vec<String>>);

impl Observer for Seen {
    fn observe(&self, o: &Observation<'_>) {
        self.0.lock().unwrap().push((o.action, o.error.map(|e| e.class)));
    }

    fn attempted(&self, a: &Attempt<'_>) {
        let dry = if a.dry_run { " (dry run)" } else { "" };
        self.1.lock().unwrap().push(format!("{}{dry}: {:?}", a.action, a.outcome));
    }
}

/// The server, with a client that calls it.
pub(crate) struct Wire {
    script: Arc<Mutex<Script>>,
    pub(crate) ec2: AwsEc2,
    pub(crate) seen: Arc<Seen>,
    _tasks: JoinSet<()>,
}

impl Wire {
    pub(crate) async fn answering(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with(replies, settings()).await
    }

    pub(crate) async fn with(replies: impl IntoIterator<Item = Reply>, settings: Settings) -> Self {
        Self::configured(replies, settings, config).await
    }

    /// Creates the server and its client. `config` returns the client's configuration for the server's endpoint.
    pub(crate) async fn configured(
        replies: impl IntoIterator<Item = Reply>,
        settings: Settings,
        config: impl FnOnce(&str) -> AwsConfig,
    ) -> Self {
        let script = Arc::new(Mutex::new(Script { replies: replies.into_iter().collect(), requests: vec![] }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().fallback(answer).with_state(Arc::clone(&script));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
        let seen = Arc::new(Seen::default());
        let config = config(&format!("http://{address}"));
        let settings = Settings { sts_endpoint: config.ec2_endpoint.clone(), ..settings };
        let ec2 = AwsEc2::connect_with(&config, settings, Arc::clone(&seen) as Arc<dyn Observer>).await.unwrap();
        Self { script, ec2, seen, _tasks: tasks }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.script.lock().unwrap().requests.clone()
    }

    /// Waits for a request and then lets the paused clock advance. A request without a reply then ends at its timeout,
    /// however long this machine took to send it.
    pub(crate) async fn time_passes_after_a_request(&self) {
        while self.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        tokio::time::pause();
    }

    /// Returns the form of the only request, without the fields that every request has.
    pub(crate) fn only_form(&self) -> BTreeMap<String, String> {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:#?}");
        requests[0].form.clone()
    }
}

/// A secret that must never be logged.
pub(crate) const SECRET: &str = "canary-secret-key";
pub(crate) const TOKEN: &str = "canary-session-token";

/// Returns a query of volumes to which any reply is valid.
pub(crate) fn managed_volumes() -> VolumeQuery {
    VolumeQuery::Tag { key: "ebs.csi.aws.com/cluster".to_owned(), values: vec!["true".to_owned()] }
}

/// Returns settings with fixed credentials, so that they do not depend on the environment.
pub(crate) fn settings() -> Settings {
    let credentials = Credentials::new("AKIATEST", SECRET, Some(TOKEN.into()), None, "test");
    Settings { credentials: Some(SharedCredentialsProvider::new(credentials)), ..Settings::default() }
}

pub(crate) async fn client(endpoint: &str, settings: Settings) -> AwsEc2 {
    AwsEc2::connect_with(&config(endpoint), settings, Arc::new(Seen::default())).await.unwrap()
}

pub(crate) fn config(endpoint: &str) -> AwsConfig {
    AwsConfig {
        region: "us-west-2".into(),
        ec2_endpoint: Some(endpoint.into()),
        sagemaker_endpoint: Some(endpoint.into()),
        user_agent_extra: Some("helm".into()),
        version: "v1.2.3".into(),
        log_bodies: false,
    }
}

pub(crate) const CHILD: &str = "EBS_AWS_TEST_CHILD";

/// Runs one test of this program in a child process with this input and environment, because a process has only one
/// environment. Returns what the child prints.
pub(crate) fn printed_by_child(test: &str, input: &str, environment: &[(&str, &str)]) -> String {
    #[expect(clippy::disallowed_methods, reason = "a process of its own has an environment of its own")]
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env_clear()
        .env(CHILD, input)
        .env("AWS_CONFIG_FILE", "/nonexistent")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("1 passed"), "the child ran no test: {printed}");
    printed
}

async fn answer(
    State(script): State<Arc<Mutex<Script>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let is_form = headers["content-type"] == "application/x-www-form-urlencoded";
    let form = if is_form { parse_form(std::str::from_utf8(&body).unwrap()) } else { BTreeMap::new() };
    let reply = {
        let mut script = script.lock().unwrap();
        script.requests.push(Request { method, uri, headers, body, form });
        if script.replies.len() > 1 { script.replies.pop_front() } else { script.replies.front().cloned() }
    };
    match reply {
        Some(Reply::Say(status, body)) => (StatusCode::from_u16(status).unwrap(), body).into_response(),
        Some(Reply::SayWith(status, headers, body)) => {
            (StatusCode::from_u16(status).unwrap(), AppendHeaders(headers), body).into_response()
        }
        Some(Reply::Hang) => std::future::pending().await,
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn parse_form(body: &str) -> BTreeMap<String, String> {
    let decode =
        |text: &str| percent_encoding::percent_decode_str(&text.replace('+', " ")).decode_utf8().unwrap().into_owned();
    body.split('&').filter(|p| !p.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, ""))).fold(
        BTreeMap::new(),
        |mut form, (key, value)| {
            assert!(form.insert(decode(key), decode(value)).is_none(), "{key} twice in {body}");
            form
        },
    )
}
