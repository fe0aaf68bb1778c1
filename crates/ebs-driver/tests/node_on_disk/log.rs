//! What a thread logs.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, Once};

/// Collects what this thread logs for as long as it lives.
pub(crate) struct Log {
    text: Text,
    _listening: tracing::subscriber::DefaultGuard,
}

#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    pub(crate) fn listen() -> Self {
        listen_everywhere();
        let text = Text::default();
        let writer = text.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        Self { text, _listening: tracing::subscriber::set_default(subscriber) }
    }

    /// The lines with all of these words.
    pub(crate) fn lines_with(&self, words: &[&str]) -> Vec<String> {
        let text = String::from_utf8(self.text.0.lock().expect("not poisoned").clone()).expect("text");
        text.lines().filter(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned).collect()
    }
}

/// With one subscriber in the whole program, that of a thread, another test may settle for good that nobody listens at a
/// place that logs. A second one, for all threads, makes tracing ask each time.
fn listen_everywhere() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let nowhere = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(io::sink);
        tracing::subscriber::set_global_default(nowhere.finish()).expect("the first one");
    });
}
