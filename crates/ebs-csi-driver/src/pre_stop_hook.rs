//! Mode `pre-stop-hook`: waits until this node's volumes are detached (`runtime.md` 9). No CSI, no socket.

use crate::cli::HookSettings;
use crate::supervise::Signals;

/// Waits until nothing is attached to this node any more, or until SIGTERM or SIGINT.
///
/// # Errors
/// It cannot find out what is attached.
pub(crate) async fn run(settings: &HookSettings, _signals: Signals) -> anyhow::Result<()> {
    let HookSettings { driver, kubeconfig } = settings;
    tracing::debug!(%driver, ?kubeconfig, "pre-stop hook");
    anyhow::bail!("mode pre-stop-hook is not available yet in this version: use controller, node or all")
}
