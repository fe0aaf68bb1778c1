//! The metadata service of this machine's own instance: session tokens, and a tree of paths and values.

mod token;
mod tree;

pub(crate) use tree::Tree;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};

use crate::http::answer;
use crate::imds::token::{MAX_TTL_SECONDS, Tokens};

const TTL_HEADER: &str = "x-aws-ec2-metadata-token-ttl-seconds";
const TOKEN_HEADER: &str = "x-aws-ec2-metadata-token";

#[derive(Debug)]
pub(crate) struct Imds {
    tree: Tree,
    tokens: Tokens,
    v1: bool,
}

impl Imds {
    pub(crate) fn new(tree: Tree, v1: bool) -> Self {
        Self { tree, tokens: Tokens::new(), v1 }
    }

    /// Returns the routes of the service. It looks up every path in the tree.
    pub(crate) fn router(self) -> Router {
        Router::new().fallback(handle).with_state(Arc::new(self))
    }

    fn respond(&self, method: &Method, path: &str, headers: &HeaderMap) -> Response<Body> {
        if path == "/latest/api/token" {
            return if method == Method::PUT {
                self.new_token(headers)
            } else {
                text(StatusCode::METHOD_NOT_ALLOWED, "")
            };
        }
        if method != Method::GET && method != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "");
        }
        let allowed = match headers.get(TOKEN_HEADER) {
            None => self.v1,
            Some(token) => token.to_str().is_ok_and(|token| self.tokens.is_valid(token)),
        };
        if !allowed {
            return text(StatusCode::UNAUTHORIZED, "");
        }
        match self.tree.get(path) {
            Some(content) => text(StatusCode::OK, content),
            None => text(StatusCode::NOT_FOUND, ""),
        }
    }

    fn new_token(&self, headers: &HeaderMap) -> Response<Body> {
        // A forwarded request does not come from the instance.
        if headers.contains_key("x-forwarded-for") {
            return text(StatusCode::FORBIDDEN, "");
        }
        let ttl = headers.get(TTL_HEADER).and_then(|value| value.to_str().ok()).and_then(|value| value.parse().ok());
        let Some(ttl) = ttl.filter(|ttl| (1..=MAX_TTL_SECONDS).contains(ttl)) else {
            return text(StatusCode::BAD_REQUEST, "");
        };
        let mut response = text(StatusCode::OK, self.tokens.issue(ttl));
        response.headers_mut().insert(TTL_HEADER, HeaderValue::from(ttl));
        response
    }
}

async fn handle(State(imds): State<Arc<Imds>>, request: Request<Body>) -> Response<Body> {
    imds.respond(request.method(), request.uri().path(), request.headers())
}

fn text(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    answer(status, "text/plain", body)
}

#[cfg(test)]
mod tests;
