//! Queues finished spans and sends them to the collector in batches.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// The limits of the queue, from the variables `OTEL_BSP_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// The maximum number of spans in the queue.
    pub(super) queue: usize,
    /// The maximum number of spans in a message.
    pub(super) batch: usize,
    /// The longest time for which an incomplete message waits for more spans.
    pub(super) delay: Duration,
    /// The time limit for sending a message, including its retries.
    pub(super) export: Duration,
}

/// How many finished spans the collector accepted, how many it did not, and how many did not fit into the queue.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) exported: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) dropped: AtomicU64,
}

/// Queues finished spans, without ever waiting.
#[derive(Debug)]
pub(super) struct Batches {
    /// `None` after the shutdown.
    queue: Mutex<Option<mpsc::Sender<SpanData>>>,
    counts: Arc<Counts>,
}

/// The receiving end of the queue.
#[derive(Debug)]
pub(super) struct Queue {
    sending: JoinSet<()>,
    pub(super) counts: Arc<Counts>,
}

impl Batches {
    pub(super) fn start(
        mut exporter: impl SpanExporter + 'static,
        resource: &Resource,
        limits: Limits,
    ) -> (Self, Queue) {
        exporter.set_resource(resource);
        let (queue, spans) = mpsc::channel(limits.queue);
        let counts = Arc::new(Counts::default());
        let mut sending = JoinSet::new();
        let sender = Sender { exporter, limits, counts: Arc::clone(&counts), failing: false };
        sending.spawn(sender.run(ReceiverStream::new(spans)));
        (Self { queue: Mutex::new(Some(queue)), counts: Arc::clone(&counts) }, Queue { sending, counts })
    }

    fn queue(&self) -> MutexGuard<'_, Option<mpsc::Sender<SpanData>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SpanProcessor for Batches {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        let is_sampled = span.span_context.is_sampled();
        if is_sampled && self.queue().as_ref().is_none_or(|queue| queue.try_send(span).is_err()) {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns at once: [`Queue::finish`] sends the remaining spans.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        *self.queue() = None;
        Ok(())
    }
}

impl Queue {
    /// Exports the queued spans after the shutdown of [`Batches`], for at most `limit`.
    pub(super) async fn finish(self, limit: Duration) {
        let Self { mut sending, counts } = self;
        let in_time = timeout(limit, async { while sending.join_next().await.is_some() {} }).await.is_ok();
        if !in_time {
            sending.shutdown().await;
        }
        let [exported, refused, dropped] =
            [&counts.exported, &counts.refused, &counts.dropped].map(|count| count.load(Ordering::Relaxed));
        if !in_time || refused > 0 || dropped > 0 {
            tracing::warn!(exported, refused, dropped, in_time, "some trace spans did not reach the collector");
        }
    }
}

struct Sender<E> {
    exporter: E,
    limits: Limits,
    counts: Arc<Counts>,
    /// True if the last message failed and this was logged. Further failures in a row are then not logged.
    failing: bool,
}

impl<E: SpanExporter> Sender<E> {
    async fn run(mut self, spans: ReceiverStream<SpanData>) {
        let mut batches = pin!(spans.chunks_timeout(self.limits.batch, self.limits.delay));
        while let Some(batch) = batches.next().await {
            self.send(batch).await;
        }
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let limit = self.limits.export;
        let sent = timeout(limit, self.exporter.export(batch)).await.unwrap_or(Err(OTelSdkError::Timeout(limit)));
        match sent {
            Ok(()) => {
                self.counts.exported.fetch_add(count, Ordering::Relaxed);
                if std::mem::take(&mut self.failing) {
                    tracing::info!("trace collector accepts spans again");
                }
            }
            Err(error) => {
                self.counts.refused.fetch_add(count, Ordering::Relaxed);
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%error, "failed to export trace spans; further failures are not logged until an export succeeds");
                }
            }
        }
    }
}
