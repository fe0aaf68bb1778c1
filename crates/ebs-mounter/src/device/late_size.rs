//! Waits until the kernel shows a new size of a disk: EC2 reports it some seconds earlier.

use std::io;
use std::time::Duration;

use ebs_types::Bytes;
use tokio::time::Instant;

use super::Device;
use super::arrivals::Arrivals;
use crate::mounter::Mounter;

/// How often to look all the same, beside the kernel's events.
const LOOK: Duration = Duration::from_secs(1);

impl Mounter {
    /// The size of a device in bytes, as soon as it is at least `least`. After [`late_size`](crate::MounterConfig::late_size)
    /// it is the size at that time, which may be smaller. The kernel sends an event when the size of a disk changes, and the
    /// size is read each second besides.
    ///
    /// Cancellation: dropping the future ends the wait.
    ///
    /// # Errors
    /// What the kernel says, for instance that the disk is gone.
    pub async fn size_of_at_least(&self, device: &Device, least: Bytes) -> io::Result<Bytes> {
        let size = device.size().await?;
        if size >= least {
            return Ok(size);
        }
        tracing::info!(volume = %device.volume(), device = %device.path().display(), %size, wanted = %least,
            "waiting until the kernel shows the new size of the disk");
        let deadline = Instant::now() + self.config.late_size;
        let mut changes = Arrivals::listen().looking_each(LOOK);
        loop {
            // Read after the events are listened to, so none is missed.
            let size = device.size().await?;
            if size >= least || Instant::now() >= deadline {
                return Ok(size);
            }
            changes.wait(deadline).await;
        }
    }
}
