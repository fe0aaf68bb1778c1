//! Mode `metadataLabeler`: no CSI, no socket (`runtime.md` 8).

use crate::cli::LabelerSettings;
use crate::supervise::Signals;

/// Labels nodes until SIGTERM or SIGINT.
///
/// # Errors
/// The mode cannot work, or has lost its lease.
pub(crate) async fn run(settings: &LabelerSettings, _signals: Signals) -> anyhow::Result<()> {
    let LabelerSettings { driver, http, kubeconfig, user_agent_extra, log_aws_bodies, shutdown_timeout } = settings;
    tracing::debug!(%driver, ?http, ?kubeconfig, user_agent_extra, log_aws_bodies, ?shutdown_timeout, "labeler");
    anyhow::bail!("mode metadataLabeler is not available yet in this version: use controller, node or all")
}
