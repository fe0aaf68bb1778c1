//! A transport that answers EC2's calls inside the process, instead of over the network.

use std::fmt;
use std::io;
use std::sync::Arc;

use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;

/// A transport that replaces the network, for tests that run the SDK on paused time. It serves EC2, SageMaker, STS and
/// the sources of credentials, which differ by their hosts. Only signatures use the real time.
#[derive(Debug, Clone)]
pub struct Transport(SharedHttpClient);

impl Transport {
    /// Creates a transport from a function that answers each request. If the function returns an error, the connection
    /// breaks.
    pub fn answering<F, A>(answer: F) -> Self
    where
        F: Fn(http::Request<Bytes>) -> A + Send + Sync + 'static,
        A: Future<Output = io::Result<http::Response<Bytes>>> + Send + 'static,
    {
        let connector = SharedHttpConnector::new(InProcess(Arc::new(answer)));
        Self(http_client_fn(move |_, _| connector.clone()))
    }

    pub(crate) fn client(&self) -> SharedHttpClient {
        self.0.clone()
    }
}

struct InProcess<F>(Arc<F>);

impl<F> fmt::Debug for InProcess<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").finish_non_exhaustive()
    }
}

impl<F, A> HttpConnector for InProcess<F>
where
    F: Fn(http::Request<Bytes>) -> A + Send + Sync + 'static,
    A: Future<Output = io::Result<http::Response<Bytes>>> + Send + 'static,
{
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let answer = Arc::clone(&self.0);
        HttpConnectorFuture::new(async move {
            let request = request.try_into_http1x().map_err(|e| ConnectorError::user(e.into()))?;
            let request = request.map(|body| body.bytes().map(Bytes::copy_from_slice).unwrap_or_default());
            let response = answer(request).await.map_err(|e| ConnectorError::io(e.into()))?;
            HttpResponse::try_from(response.map(SdkBody::from)).map_err(|e| ConnectorError::other(e.into(), None))
        })
    }
}
