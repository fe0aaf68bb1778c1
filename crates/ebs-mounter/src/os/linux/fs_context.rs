//! Checks options of a file system without a disk: fsopen(2) and fsconfig(2), Linux 5.2.
//!
//! mount(2) returns EINVAL for an invalid option and for a damaged disk alike. A file system context parses one option
//! at a time and has a log that names an invalid option. It is dropped before it has a disk, so nothing is mounted.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::mount::FsOpenFlags;

/// An option that no file system has. A file system that accepts it does not parse options before the mount.
const NO_OPTION: &str = "ebs-csi-no-such-option";
/// Maximum length of a value for fsconfig(2), in bytes.
const MAX_VALUE: usize = 255;

/// The kernel's judgement about options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The file system rejects this option.
    Refused {
        /// The option as it was given.
        option: String,
        /// The kernel's reason, if it gives one.
        reason: Option<String>,
    },
    /// The file system knows all options. Only the mount shows whether they fit together and to the disk.
    Taken,
    /// The kernel is older than Linux 5.2, or this file system does not use contexts yet.
    Unknown,
}

/// Checks options of a file system in order, and returns the first that is rejected.
pub(crate) fn judge<'a>(fs_type: &str, options: impl IntoIterator<Item = &'a str>) -> Judgement {
    let Ok(context) = rustix::mount::fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC) else { return Judgement::Unknown };
    if set(&context, NO_OPTION).is_ok() {
        return Judgement::Unknown;
    }
    drain(&context);
    for option in options {
        match set(&context, option) {
            Ok(()) => drop(drain(&context)),
            // Errors with another cause than the option.
            Err(Errno::NOMEM | Errno::INTR | Errno::PERM) => return Judgement::Unknown,
            Err(_) => return Judgement::Refused { option: option.to_owned(), reason: drain(&context) },
        }
    }
    Judgement::Taken
}

fn set(context: &OwnedFd, option: &str) -> Result<(), Errno> {
    match option.split_once('=') {
        Some((_, value)) if value.len() > MAX_VALUE => Ok(()),
        Some((key, value)) => rustix::mount::fsconfig_set_string(context, key, value),
        None => rustix::mount::fsconfig_set_flag(context, option),
    }
}

/// Empties the log of a context and returns its last error.
fn drain(context: &OwnedFd) -> Option<String> {
    let mut last = None;
    let mut line = [0; 512];
    // A context has room for eight lines. Reading an empty log is an error.
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
        match judge(fs_type, options.iter().copied()) {
            Judgement::Refused { option, reason } => Some((option, reason.unwrap_or_default())),
            Judgement::Taken => None,
            Judgement::Unknown => panic!("this kernel cannot judge options of {fs_type}"),
        }
    }

    #[test]
    fn first_rejected_option_is_named() {
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
    fn options_of_an_unknown_file_system_are_not_judged() {
        assert_eq!(judge("no-such-fs", ["discard"]), Judgement::Unknown);
    }

    #[test]
    fn value_too_long_for_fsconfig_is_left_to_the_mount() {
        let long = format!("errors={}", "x".repeat(MAX_VALUE + 1));
        assert_eq!(judge("ext4", [long.as_str()]), Judgement::Taken);
    }
}
