//! Adds the token to every call and applies the rate limit and the timeouts.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use tokio::time::Sleep;
use tower::{BoxError, Layer, Service};
use tower_http::timeout::TimeoutBody;

use super::pace::{Pace, Silence};

/// How long to wait for the start of a response. The API server's own limit is 60 s.
const ANSWER_BOUND: Duration = Duration::from_secs(30);
/// The longest time between two parts of a response.
const BODY_BOUND: Duration = Duration::from_secs(30);
/// The longest time without an event in a watch. The server sends a bookmark about every minute.
const WATCH_BOUND: Duration = Duration::from_secs(150);

/// A failure that this client detected.
#[derive(Debug, thiserror::Error)]
pub(super) enum GuardError {
    #[error("the API server did not start its response within {ANSWER_BOUND:?}")]
    NoAnswer,
    #[error("read the token file {path}")]
    Token { path: PathBuf, source: std::io::Error },
}

/// A token file, which another process replaces from time to time.
#[derive(Debug, Clone)]
pub(super) struct TokenFile {
    path: PathBuf,
    /// The last valid token, which is used while the file is missing or incomplete.
    last: Arc<Mutex<Option<HeaderValue>>>,
}

impl TokenFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, last: Arc::default() }
    }

    /// Returns the header with the current token. The kubelet keeps the small file in memory, so a read is brief.
    fn header(&self) -> Result<HeaderValue, GuardError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = std::fs::read_to_string(&self.path).and_then(|token| {
            let token = token.trim();
            let value = HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| !token.is_empty());
            value.ok_or_else(|| std::io::Error::other("the file contains no valid token"))
        });
        match fresh {
            Ok(mut value) => {
                value.set_sensitive(true);
                Ok(last.insert(value).clone())
            }
            Err(source) => last.clone().ok_or_else(|| GuardError::Token { path: self.path.clone(), source }),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct GuardLayer {
    pub(super) token: Option<TokenFile>,
}

impl<S> Layer<S> for GuardLayer {
    type Service = Guard<S>;

    fn layer(&self, inner: S) -> Guard<S> {
        Guard { inner, token: self.token.clone(), pace: Pace::new(), may_call: false, wait: None }
    }
}

/// A service behind the rate limit. It is ready when the next call may be sent.
pub(super) struct Guard<S> {
    inner: S,
    token: Option<TokenFile>,
    pace: Pace,
    /// True if the rate limit allows the next call.
    may_call: bool,
    wait: Option<Pin<Box<Sleep>>>,
}

impl<S, B> Service<Request<kube::client::Body>> for Guard<S>
where
    S: Service<Request<kube::client::Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<TimeoutBody<B>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        while !self.may_call {
            if let Some(wait) = &mut self.wait {
                ready!(wait.as_mut().poll(context));
            }
            self.wait = self.pace.take().err().map(|wait| Box::pin(tokio::time::sleep(wait)));
            self.may_call = self.wait.is_none();
        }
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<kube::client::Body>) -> Self::Future {
        self.may_call = false;
        let is_watch = request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
        let body_bound = if is_watch { WATCH_BOUND } else { BODY_BOUND };
        let silence = self.pace.silence();
        match self.token.as_ref().map(TokenFile::header) {
            None => {}
            Some(Ok(header)) => drop(request.headers_mut().insert(AUTHORIZATION, header)),
            Some(Err(error)) => return Box::pin(std::future::ready(Err(error.into()))),
        }
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = tokio::time::timeout(ANSWER_BOUND, answer).await;
            let answer = answer.map_err(|_| GuardError::NoAnswer)?.map_err(Into::into)?;
            heed(answer.status(), answer.headers(), &silence);
            Ok(answer.map(|body| TimeoutBody::new(body_bound, body)))
        })
    }
}

fn heed(status: StatusCode, headers: &HeaderMap, silence: &Silence) {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    if let (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, Some(seconds)) = (status, seconds) {
        silence.ask(Duration::from_secs(seconds));
    }
}

#[cfg(test)]
mod tests;
