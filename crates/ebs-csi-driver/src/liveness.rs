//! Answers the kubelet's probes on `--health-endpoint`, in place of a livenessprobe sidecar.
//!
//! Each request calls `Probe` over the CSI socket, like the sidecar, so it also proves that the socket and the gRPC
//! server work.

use std::time::Duration;

use component_base::http::HttpEndpoint;
use ebs_driver::server::{Endpoint, probe};
use ebs_driver::status::chain;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The longest wait for `Probe`. The kubelet usually disconnects earlier, which cancels the probe.
const PATIENCE: Duration = Duration::from_secs(50);

/// Starts to serve `/healthz`, if an address is configured. `csi` is the driver's own CSI endpoint.
pub(crate) fn serve(address: Option<&HttpEndpoint>, csi: &Endpoint, background: &mut JoinSet<()>) {
    let Some(address) = address else { return };
    let csi = csi.clone();
    background.spawn(ebs_telemetry::serve_liveness(address.clone(), move || check(csi.clone())));
}

async fn check(csi: Endpoint) -> Result<(), String> {
    match timeout(PATIENCE, probe(&csi)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            tracing::warn!(error = chain(&error), "health check failed");
            Err(error.to_string())
        }
        Err(_elapsed) => {
            tracing::warn!(within = ?PATIENCE, "health check failed: the CSI server does not answer Probe");
            Err("the CSI server does not answer Probe".to_owned())
        }
    }
}
