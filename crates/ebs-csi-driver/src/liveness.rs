//! Answers the kubelet's probes on `--health-endpoint`, in place of a livenessprobe sidecar.
//!
//! Each request calls `Probe` over the CSI socket, like the sidecar, so it also proves that the socket and the gRPC
//! server work.

use std::time::Duration;

use component_base::http::HttpEndpoint;
use ebs_driver::server::{Endpoint, ProbeError, probe};
use ebs_driver::status::chain;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::Status;

/// The longest wait for `Probe`. The kubelet usually disconnects earlier, which cancels the probe.
const PATIENCE: Duration = Duration::from_secs(50);

/// Starts to serve `/healthz`, if an address is configured. `csi` is the driver's own CSI endpoint.
pub(crate) fn serve(address: Option<&HttpEndpoint>, csi: &Endpoint, background: &mut JoinSet<()>) {
    let Some(address) = address else { return };
    let csi = csi.clone();
    background.spawn(ebs_telemetry::serve_liveness(address.clone(), move || check(csi.clone())));
}

async fn check(csi: Endpoint) -> Result<(), String> {
    let late = |_elapsed| ProbeError::Call(Status::deadline_exceeded(format!("no reply within {PATIENCE:?}")));
    timeout(PATIENCE, probe(&csi)).await.map_err(late).flatten().map_err(|error| {
        tracing::warn!(error = chain(&error), "health check failed");
        error.to_string()
    })
}
