//! The end of a proxy that somebody has started by hand, or that runs in a container.

use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};
use tokio_util::sync::CancellationToken;

/// Cancels `stop` when the console or the container is to end.
pub(crate) async fn end_of_console(stop: CancellationToken) {
    let (Ok(mut interrupt), Ok(mut stopped), Ok(mut closed), Ok(mut shutdown)) =
        (ctrl_c(), ctrl_break(), ctrl_close(), ctrl_shutdown())
    else {
        // Without a console there is nobody to end it so.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = stopped.recv() => {}
        _ = closed.recv() => {}
        _ = shutdown.recv() => {}
    }
    stop.cancel();
    // Windows ends the process when the handler of a closed console returns: it must not, before the drain is over.
    std::future::pending().await
}
