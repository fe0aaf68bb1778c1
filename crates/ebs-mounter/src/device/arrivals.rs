//! Waits for devices that come late: the kernel says when one comes, so nobody need look again and again.

use std::io;
use std::time::Duration;

use tokio::time::Instant;

use crate::os::DeviceEvents;

/// How often to look where the kernel cannot be listened to.
const POLL: Duration = Duration::from_millis(200);
/// How often to look all the same where it can: its word may not reach the network namespace of this process, and names
/// that udev gives come after it.
const DOUBT: Duration = Duration::from_secs(2);
/// Many disks that come at once are looked at together.
const GATHER: Duration = Duration::from_millis(20);

/// The kernel's word on block devices, from a certain moment on.
#[derive(Debug)]
pub(super) struct Arrivals {
    events: Option<DeviceEvents>,
    look_again: Duration,
}

impl Arrivals {
    /// Listens from now on. Where that is impossible, looks are repeated instead.
    pub(super) fn listen() -> Self {
        match DeviceEvents::listen() {
            Ok(events) => Self { events: Some(events), look_again: DOUBT },
            Err(error) => {
                tracing::debug!(name: "v5", %error, "the kernel's events cannot be had: looking for late devices again and again");
                Self { events: None, look_again: POLL }
            }
        }
    }

    /// Looks are repeated at least this often.
    pub(super) fn looking_each(self, at_least: Duration) -> Self {
        Self { look_again: self.look_again.min(at_least), ..self }
    }

    /// As [`Arrivals::listen`], and only the kernel's word counts.
    #[cfg(test)]
    pub(super) fn without_doubt() -> Self {
        let arrivals = Self::listen();
        assert!(arrivals.events.is_some(), "no socket for the kernel's events");
        Self { look_again: Duration::from_secs(3600), ..arrivals }
    }

    /// As where the kernel cannot be listened to.
    #[cfg(test)]
    pub(super) fn deaf() -> Self {
        Self { events: None, look_again: POLL }
    }

    /// Waits until looking again may show something new, or the deadline has come.
    pub(super) async fn wait(&mut self, deadline: Instant) {
        let until = deadline.min(Instant::now() + self.look_again);
        let Some(events) = &self.events else { return tokio::time::sleep_until(until).await };
        match tokio::time::timeout_at(until, heard(events)).await {
            Ok(Ok(())) | Err(_) => {}
            Ok(Err(error)) => {
                tracing::debug!(name: "v5", %error, "the kernel's events ended: looking for late devices again and again");
                *self = Self { events: None, look_again: POLL };
            }
        }
    }
}

/// Waits for an event of a block device, and takes off those that came with it.
async fn heard(events: &DeviceEvents) -> io::Result<()> {
    events.next_of_a_block_device().await?;
    tokio::time::sleep(GATHER).await;
    events.clear()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the kernel cannot be listened to, a wait is the pause between two looks, and no longer than asked.
    #[tokio::test(start_paused = true)]
    async fn where_the_kernel_cannot_be_listened_to_a_wait_is_the_pause_between_two_looks() {
        let is_about =
            |waited: Duration, wanted: Duration| waited >= wanted && waited < wanted + Duration::from_millis(5);
        let (mut arrivals, start) = (Arrivals::deaf(), Instant::now());
        arrivals.wait(start + Duration::from_secs(3600)).await;
        assert!(is_about(start.elapsed(), POLL), "{:?}", start.elapsed());
        let (start, soon) = (Instant::now(), POLL / 4);
        arrivals.wait(start + soon).await;
        assert!(is_about(start.elapsed(), soon), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_the_kernels_word_does_not_end_at_once() {
        let (mut arrivals, start) = (Arrivals::listen(), Instant::now());
        arrivals.wait(start + Duration::from_secs(3600)).await;
        // Another test's disk may come meanwhile.
        assert!(start.elapsed() >= GATHER, "{:?}", start.elapsed());
    }
}
