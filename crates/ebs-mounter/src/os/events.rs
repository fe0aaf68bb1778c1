//! The kernel's events about devices that appear, disappear and change.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use tokio::io::unix::AsyncFd;

/// Netlink group of the events that the kernel sends. Group 2 would be the events that udev has processed.
const OF_THE_KERNEL: u32 = 1;
/// Buffer size in bytes: twice the kernel's maximum for one event.
const EVENT_BYTES: usize = 8192;
const AT_ONCE: usize = 4096;

#[derive(Debug)]
pub(crate) struct DeviceEvents(AsyncFd<OwnedFd>);

impl DeviceEvents {
    /// Starts to receive events. Must run in a tokio runtime with I/O.
    pub(crate) fn listen() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(KOBJECT_UEVENT))?;
        bind(&socket, &SocketAddrNetlink::new(0, OF_THE_KERNEL))?;
        // SAFETY: an `OwnedFd` keeps the same descriptor open as long as it exists, and the `AsyncFd` owns it: no code
        // here takes it out or closes it.
        let registered = unsafe { AsyncFd::register(socket) };
        registered.map(Self).map_err(io::Error::from)
    }

    pub(crate) async fn next_of_a_block_device(&self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            match ready.try_io(|socket| receive(socket.get_ref())) {
                Ok(Ok(true)) => return Ok(()),
                Ok(Err(error)) => return Err(error),
                // Another device, or a spurious wakeup: keep waiting.
                Ok(Ok(false)) | Err(_) => {}
            }
        }
    }

    pub(crate) fn clear(&self) -> io::Result<()> {
        for _ in 0..AT_ONCE {
            match receive(self.0.get_ref()) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Reads one event. Returns true if it is about a block device, or if the kernel has dropped events.
fn receive(socket: impl AsFd) -> io::Result<bool> {
    let mut event = [0_u8; EVENT_BYTES];
    match recv(socket, &mut event[..], RecvFlags::DONTWAIT) {
        Ok((bytes, _)) => Ok(is_of_a_block_device(&event[..bytes.min(EVENT_BYTES)])),
        Err(rustix::io::Errno::NOBUFS) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// An event is a headline followed by `KEY=value` strings, each terminated by a zero byte.
fn is_of_a_block_device(event: &[u8]) -> bool {
    event.split(|byte| *byte == 0).any(|text| text == b"SUBSYSTEM=block")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_device_event_is_recognised_by_its_subsystem_only() {
        let event =
            |subsystem: &str| format!("add@/devices/x\0ACTION=add\0DEVPATH=/devices/x\0{subsystem}\0SEQNUM=1\0");
        assert!(is_of_a_block_device(event("SUBSYSTEM=block").as_bytes()));
        for other in ["SUBSYSTEM=nvme", "SUBSYSTEM=blocks", "XSUBSYSTEM=block"] {
            assert!(!is_of_a_block_device(event(other).as_bytes()), "{other}");
        }
        assert!(!is_of_a_block_device(b""));
    }
}
