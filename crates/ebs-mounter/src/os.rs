//! The host's operating system: everything that differs on another system.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(test)]
#[cfg(target_os = "linux")]
pub(crate) use linux::serial_in;
#[cfg(target_os = "linux")]
pub(crate) use linux::{
    DeviceEvents, Judgement, bequeath, block_device_number, block_size, clear_workshop, is_block_read_only,
    judge_options, kernel_release, may_resize_mounted_ext, mount, mount_bound, nvme_serial, nvme_statistics_page,
    security_labels_are_active, statfs, statfs_of, thaw, unmount, xfs_data_bytes,
};

#[cfg(not(target_os = "linux"))]
compile_error!("this crate has no host module for this operating system yet");
