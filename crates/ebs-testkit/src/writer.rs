//! Somebody who writes to a file system without pause while something else happens to it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::content;

/// What is written at a time.
const CHUNK: u64 = 1 << 20;
/// How long one chunk may take.
const CHUNK_BOUND: Duration = Duration::from_secs(180);

/// Writes one file again and again, synced each time, until it is told to end. Dropping it ends it as well.
#[derive(Debug)]
pub struct Writer {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: Option<tokio::task::JoinHandle<std::io::Result<String>>>,
}

impl Writer {
    /// Starts to write to `path`; must be called in a runtime.
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

    /// How many MiB it has written.
    pub fn written_mib(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// Waits until it has written more than when this was called.
    ///
    /// # Errors
    /// When it has ended by itself (a write failed) or makes no progress within a minute.
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
        ensure!(!ended(), "the writer ended early");
        Ok(())
    }

    /// Lets it finish its last chunk; returns the hash of what the file holds now.
    ///
    /// # Errors
    /// What the file system said to the write that failed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_writer_goes_on_until_it_is_told_to_end_and_its_last_hash_is_that_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stream");
        let writer = Writer::start(path.clone());
        writer.progress().await.unwrap();
        writer.progress().await.unwrap();
        let hash = writer.end().await.unwrap();
        assert_eq!(content::hash_file(&path).unwrap(), hash);
    }

    #[tokio::test]
    async fn a_write_that_fails_is_reported() {
        let writer = Writer::start(PathBuf::from("/nonexistent/stream"));
        assert!(writer.progress().await.is_err());
        assert!(writer.end().await.unwrap_err().to_string().contains("writer failed"));
    }
}
