//! HTTP on loopback: listeners that shut down within a time limit, and the EC2 endpoint.

mod broken;
mod ec2;
mod line;
mod listener;

pub use broken::Broken;
pub use ec2::Ec2Service;
pub(crate) use listener::Listener;
pub use listener::OpenError;

use axum::body::Body;
use http::{Response, StatusCode, header};

pub(crate) fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, content_type)
        .body(body.into())
        .expect("a status and a constant header make a response")
}
