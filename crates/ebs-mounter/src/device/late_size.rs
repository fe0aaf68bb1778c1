//! Waits until the kernel uses the new size of a disk, which EC2 reports some seconds earlier.

use std::io;
use std::time::Duration;

use ebs_ec2::Bytes;
use tokio::time::Instant;

use super::Device;
use super::arrivals::Arrivals;
use crate::mounter::Mounter;

/// The interval at which the size is read even if the kernel sends no event.
const POLL: Duration = Duration::from_secs(1);

impl Mounter {
    /// Returns the size of a device once it is at least `least`, or its current size after a time limit.
    pub async fn size_of_at_least(&self, device: &Device, least: Bytes) -> io::Result<Bytes> {
        let size = device.size().await?;
        if size >= least {
            return Ok(size);
        }
        tracing::info!(volume = %device.volume(), device = %device.path().display(), %size, wanted = %least,
            "waiting until the kernel reports the new size of the disk");
        let deadline = Instant::now() + self.config.late_size;
        let mut changes = Arrivals::listen().with_interval(POLL);
        loop {
            // Subscribe to the events before the first read, so that no change is missed.
            let size = device.size().await?;
            if size >= least || Instant::now() >= deadline {
                return Ok(size);
            }
            changes.wait(deadline).await;
        }
    }
}
