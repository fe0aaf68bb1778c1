//! Waits for devices that appear late. The kernel reports each new device, so the search need not poll.

use std::io;
use std::time::Duration;

use tokio::time::Instant;

use crate::os::DeviceEvents;

/// How often to search when the kernel's events are unavailable.
const POLL: Duration = Duration::from_millis(200);
/// How often to search even if the kernel reports events: they may not reach this network namespace, and they precede
/// udev's symlinks.
const POLL_WITH_EVENTS: Duration = Duration::from_secs(2);
/// Disks that appear within this time are handled together.
const GATHER: Duration = Duration::from_millis(20);

/// The kernel's events about block devices since this value was created.
#[derive(Debug)]
pub(super) struct Arrivals {
    events: Option<DeviceEvents>,
    search_interval: Duration,
}

impl Arrivals {
    /// Starts to receive events. If that fails, the search polls.
    pub(super) fn listen() -> Self {
        match DeviceEvents::listen() {
            Ok(events) => Self { events: Some(events), search_interval: POLL_WITH_EVENTS },
            Err(error) => {
                tracing::debug!(name: "v5", %error, "kernel events unavailable, polling for late devices");
                Self { events: None, search_interval: POLL }
            }
        }
    }

    pub(super) fn with_interval(self, at_least: Duration) -> Self {
        Self { search_interval: self.search_interval.min(at_least), ..self }
    }

    /// Waits until another search may find something new, or until the deadline.
    pub(super) async fn wait(&mut self, deadline: Instant) {
        let until = deadline.min(Instant::now() + self.search_interval);
        let Some(events) = &self.events else { return tokio::time::sleep_until(until).await };
        match tokio::time::timeout_at(until, next_event(events)).await {
            Ok(Ok(())) | Err(_) => {}
            Ok(Err(error)) => {
                tracing::debug!(name: "v5", %error, "kernel events ended, polling for late devices");
                *self = Self { events: None, search_interval: POLL };
            }
        }
    }
}

/// Waits for an event of a block device, and discards the events that arrive with it.
async fn next_event(events: &DeviceEvents) -> io::Result<()> {
    events.next_of_a_block_device().await?;
    tokio::time::sleep(GATHER).await;
    events.clear()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Arrivals {
        /// Like [`Arrivals::listen`], but never polls.
        pub(in crate::device) fn only_events() -> Self {
            let arrivals = Self::listen();
            assert!(arrivals.events.is_some(), "no socket for the kernel's events");
            Self { search_interval: Duration::from_secs(3600), ..arrivals }
        }

        /// Returns arrivals that poll, as on a system without kernel events.
        fn without_events() -> Self {
            Self { events: None, search_interval: POLL }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wait_without_kernel_events_lasts_one_poll_interval() {
        let is_about =
            |waited: Duration, wanted: Duration| waited >= wanted && waited < wanted + Duration::from_millis(5);
        let (mut arrivals, start) = (Arrivals::without_events(), Instant::now());
        arrivals.wait(start + Duration::from_secs(3600)).await;
        assert!(is_about(start.elapsed(), POLL), "{:?}", start.elapsed());
        let (start, soon) = (Instant::now(), POLL / 4);
        arrivals.wait(start + soon).await;
        assert!(is_about(start.elapsed(), soon), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn wait_for_kernel_events_has_a_minimum_duration() {
        let (mut arrivals, start) = (Arrivals::listen(), Instant::now());
        arrivals.wait(start + Duration::from_secs(3600)).await;
        // The disk of another test may appear at the same time.
        assert!(start.elapsed() >= GATHER, "{:?}", start.elapsed());
    }
}
