//! The pages `/metrics`, `/healthz` and `/readyz`, in clear text or over TLS.

mod liveness;
mod pages;
mod tls;

use std::sync::Arc;

use component_base::http::{ClearText, HttpEndpoint};

pub use liveness::serve_liveness;
pub use pages::Pages;
pub use tls::{Tls, TlsError, TlsFiles};

const PATHS: &str = "/metrics, /healthz and /readyz";

/// The address and the certificate of the listener.
#[derive(Debug, Clone)]
pub struct Listen {
    pub endpoint: HttpEndpoint,
    /// The certificate, or `None` to serve in clear text.
    pub tls: Option<Arc<Tls>>,
}

/// Serves the pages and watches the certificate's files, until dropped. A listener that fails never stops the driver.
///
/// Cancellation: dropping the future closes the listener and every connection.
pub async fn serve(listen: Listen, pages: Pages) {
    let Listen { endpoint, tls } = listen;
    let metrics = Arc::clone(&pages.metrics);
    let app = pages.router();
    let Some(tls) = tls else { match component_base::http::serve(&endpoint, PATHS, ClearText, app).await {} };
    let handshake = tls::WithMetrics { tls: Arc::clone(&tls), metrics: Arc::clone(&metrics) };
    tokio::select! {
        () = tls.watch(&metrics) => {}
        never = component_base::http::serve(&endpoint, PATHS, handshake, app) => match never {},
    }
}

#[cfg(test)]
mod tests;
