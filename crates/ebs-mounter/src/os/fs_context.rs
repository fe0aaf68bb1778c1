//! Finds the invalid option of a mount with fsopen(2) and fsconfig(2) (Linux 5.2): mount(2) returns EINVAL for a
//! damaged disk too. The file system context never gets a disk, so nothing is mounted.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::mount::FsOpenFlags;

/// An option that no file system supports. A file system that accepts it parses options only when it is mounted.
const NO_OPTION: &str = "ebs-csi-no-such-option";
const MAX_VALUE: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OptionsCheck {
    Rejected {
        option: String,
        reason: Option<String>,
    },
    /// The file system supports each option. Only an actual mount shows whether the options and the disk are
    /// compatible.
    Accepted,
    /// The kernel is older than Linux 5.2, or this file system does not support contexts yet.
    Unknown,
}

/// Checks the options of a file system in order, and returns the first one that it rejects.
pub(crate) fn check_options<'a>(fs_type: &str, options: impl IntoIterator<Item = &'a str>) -> OptionsCheck {
    let Ok(context) = rustix::mount::fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC) else { return OptionsCheck::Unknown };
    if set(&context, NO_OPTION).is_ok() {
        return OptionsCheck::Unknown;
    }
    drain(&context);
    for option in options {
        match set(&context, option) {
            Ok(()) => drop(drain(&context)),
            // The option is not the cause of these errors.
            Err(Errno::NOMEM | Errno::INTR | Errno::PERM) => return OptionsCheck::Unknown,
            Err(_) => return OptionsCheck::Rejected { option: option.to_owned(), reason: drain(&context) },
        }
    }
    OptionsCheck::Accepted
}

fn set(context: &OwnedFd, option: &str) -> Result<(), Errno> {
    match option.split_once('=') {
        Some((_, value)) if value.len() > MAX_VALUE => Ok(()),
        Some((key, value)) => rustix::mount::fsconfig_set_string(context, key, value),
        None => rustix::mount::fsconfig_set_flag(context, option),
    }
}

fn drain(context: &OwnedFd) -> Option<String> {
    let mut last = None;
    let mut line = [0; 512];
    // The log of a context holds eight lines, and reading it fails once it is empty.
    while let Ok(length) = rustix::io::read(context, &mut line[..]) {
        if length == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line[..length]);
        if let Some(error) = text.strip_prefix("e ") {
            last = Some(error.trim_end().to_owned());
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(fs_type: &str, options: &[&str]) -> Option<(String, String)> {
        match check_options(fs_type, options.iter().copied()) {
            OptionsCheck::Rejected { option, reason } => Some((option, reason.unwrap_or_default())),
            OptionsCheck::Accepted => None,
            OptionsCheck::Unknown => panic!("this kernel cannot check options of {fs_type}"),
        }
    }

    #[test]
    fn first_rejected_mount_option_is_named() {
        let (option, reason) = refused("ext4", &["discard", "tls", "nolock"]).unwrap();
        assert!(option == "tls" && reason.contains("tls"), "{reason}");
        let (option, reason) = refused("ext4", &["errors=maybe"]).unwrap();
        assert!(option == "errors=maybe" && reason.contains("errors"), "{reason}");
        assert_eq!(refused("xfs", &["largeio", "nobarrier", "logbufs=8"]).unwrap().0, "nobarrier");
        assert_eq!(refused("ext4", &["discard", "errors=remount-ro", "data=journal"]), None);
        assert_eq!(refused("xfs", &["nouuid", "logbufs=8"]), None);
        assert_eq!(refused("xfs", &[]), None);
    }

    #[test]
    fn options_of_an_unknown_file_system_are_not_checked() {
        assert_eq!(check_options("no-such-fs", ["discard"]), OptionsCheck::Unknown);
    }

    #[test]
    fn option_too_long_for_fsconfig_is_checked_only_by_the_mount() {
        let long = format!("errors={}", "x".repeat(MAX_VALUE + 1));
        assert_eq!(check_options("ext4", [long.as_str()]), OptionsCheck::Accepted);
    }
}
