use bytes::Bytes;
use http::{Request, Response};
use kube::client::Body;
use tower::{BoxError, Service};

use super::*;

impl Cluster {
    /// Creates a connection, with the usual limits, over any service that behaves like an API server.
    pub(crate) fn over<S, B>(service: S, namespace: &str) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let builder = ClientBuilder::new(service, namespace).with_layer(&GuardLayer { token: None });
        Self { client: builder.build(), server: "in this process".to_owned() }
    }
}
