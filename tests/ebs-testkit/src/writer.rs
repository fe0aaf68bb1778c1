//! Writes to a file system continuously while a test changes it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::content;

const CHUNK: u64 = 1 << 20;
const CHUNK_BOUND: Duration = Duration::from_secs(180);

/// Writes one file repeatedly, with a sync after each write, until [`Self::end`] or drop.
#[derive(Debug)]
pub struct Writer {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: Option<tokio::task::JoinHandle<std::io::Result<String>>>,
}

impl Writer {
    /// Starts to write to `path`. Must be called in a runtime.
    pub fn start(path: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let written = Arc::new(AtomicU64::new(0));
        let (until, count) = (Arc::clone(&stop), Arc::clone(&written));
        let thread = tokio::task::spawn_blocking(move || {
            loop {
                let hash = content::write_file(&path, count.load(Ordering::SeqCst) + 1, CHUNK)?;
                count.fetch_add(1, Ordering::SeqCst);
                if until.load(Ordering::SeqCst) {
                    return Ok(hash);
                }
            }
        });
        Self { stop, written, thread: Some(thread) }
    }

    /// Returns how many MiB were written so far.
    pub fn written_mib(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// Waits until more has been written than when the call began.
    pub async fn progress(&self) -> anyhow::Result<()> {
        let before = self.written_mib();
        let ended = || self.thread.as_ref().is_none_or(tokio::task::JoinHandle::is_finished);
        let mut tick = tokio::time::interval(Duration::from_millis(10));
        let moved = async {
            while self.written_mib() <= before && !ended() {
                tick.tick().await;
            }
        };
        tokio::time::timeout(CHUNK_BOUND, moved).await.context("the writer makes no progress")?;
        ensure!(!ended(), "the writer stopped early");
        Ok(())
    }

    /// Finishes the last write, and returns the hash of the file.
    pub async fn end(mut self) -> anyhow::Result<String> {
        self.stop.store(true, Ordering::SeqCst);
        let thread = self.thread.take().context("a writer ends once")?;
        thread.await.context("the writer panicked")?.context("the writer failed")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}
