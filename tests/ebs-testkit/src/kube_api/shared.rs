//! One API server for concurrent tests of a suite.
//!
//! A child process ends with the thread that started it, and each test has its own thread. So a separate thread owns
//! the server and runs until the last test that uses the server has ended.

use std::ops::Deref;
use std::sync::{Arc, Weak, mpsc};
use std::thread::JoinHandle;

use anyhow::{Context, anyhow};
use tokio::sync::Mutex;

use super::KubeApi;

/// An API server that several tests use at the same time, each with its own object names. It ends with its last user.
#[derive(Debug)]
pub struct SharedKubeApi {
    server: Arc<KubeApi>,
    /// Dropped first, because dropping the sender ends the thread.
    stop: Option<mpsc::Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

impl SharedKubeApi {
    pub(super) async fn current() -> anyhow::Result<Arc<Self>> {
        static CURRENT: Mutex<Weak<SharedKubeApi>> = Mutex::const_new(Weak::new());
        let mut current = CURRENT.lock().await;
        if let Some(shared) = current.upgrade() {
            return Ok(shared);
        }
        let shared = Arc::new(Self::start().await?);
        *current = Arc::downgrade(&shared);
        Ok(shared)
    }

    async fn start() -> anyhow::Result<Self> {
        let (ready, started) = tokio::sync::oneshot::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let keeper = std::thread::Builder::new()
            .name("kube-api".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let server = runtime.context("a runtime").and_then(|runtime| runtime.block_on(KubeApi::start()));
                // If no test is waiting, the send fails and the server ends at once.
                let server = server.map(Arc::new);
                let kept = server.as_ref().ok().map(Arc::clone);
                drop(ready.send(server));
                let _ = stopped.recv();
                drop(kept);
            })
            .context("start a thread for the API server")?;
        let server = started.await.map_err(|_| anyhow!("the thread of the API server has stopped"))??;
        Ok(Self { server, stop: Some(stop), keeper: Some(keeper) })
    }
}

impl Deref for SharedKubeApi {
    type Target = KubeApi;

    fn deref(&self) -> &KubeApi {
        &self.server
    }
}

impl Drop for SharedKubeApi {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(keeper) = self.keeper.take() {
            // The thread has already printed its panic.
            let _ = keeper.join();
        }
    }
}
