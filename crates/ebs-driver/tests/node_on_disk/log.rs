//! Captures the driver's log lines in a test.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, Once};

use tracing::subscriber::DefaultGuard;

/// Collects the log lines of this thread until the collector is dropped.
pub(crate) struct Log {
    lines: Lines,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn listen() -> Self {
        // Install a global subscriber before anything logs. Otherwise, a thread without a subscriber could disable a
        // log line for the whole program.
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let nowhere = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(io::sink);
            tracing::subscriber::set_global_default(nowhere.finish()).expect("the first one");
        });
        let lines = Lines::default();
        let writer = lines.clone();
        let here = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone());
        Self { lines, _guard: tracing::subscriber::set_default(here.finish()) }
    }

    /// Returns the collected lines that contain all of these words.
    pub(crate) fn lines_with(&self, words: &[&str]) -> Vec<String> {
        let text = String::from_utf8(self.lines.0.lock().expect("not poisoned").clone()).expect("text");
        text.lines().filter(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned).collect()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
