//! How paths differ between the systems. The system is a value, so that tests cover both on either system.

use std::path::PathBuf;

/// Maximum length of the path of a local socket in bytes. On Unix and on Windows, it is the size of the address field
/// minus the final zero.
pub(crate) const MAX_SOCKET_PATH: usize = 107;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Platform {
    Unix,
    Windows,
}

impl Platform {
    pub(crate) const HERE: Self = if cfg!(windows) { Self::Windows } else { Self::Unix };

    /// Returns the path in native form. Windows paths in Helm values may have doubled backslashes, slashes, or a
    /// trailing separator. The result has single backslashes.
    pub(crate) fn path(self, text: &str) -> PathBuf {
        PathBuf::from(match self {
            Self::Unix => text.to_owned(),
            Self::Windows => native(text),
        })
    }

    pub(crate) fn join(self, directory: &str, file: &str) -> PathBuf {
        let (separator, separators): (_, &[char]) = match self {
            Self::Unix => ('/', &['/']),
            Self::Windows => ('\\', &['/', '\\']),
        };
        self.path(&format!("{}{separator}{file}", directory.trim_end_matches(separators)))
    }

    /// Returns whether the text is a full path without a scheme. `C:\csi.sock` looks as if it had the scheme `c`.
    pub(crate) fn is_full_path(self, text: &str) -> bool {
        let starts_at_a_drive = || {
            let mut characters = text.chars();
            let is_drive = characters.next().is_some_and(|drive| drive.is_ascii_alphabetic());
            is_drive && characters.next() == Some(':') && matches!(characters.next(), Some('\\' | '/'))
        };
        text.starts_with('/') || self == Self::Windows && (text.starts_with('\\') || starts_at_a_drive())
    }
}

/// Converts all separators to single backslashes. Keeps two at the start, which begin the name of a machine or device.
fn native(text: &str) -> String {
    let (prefix, rest) = match text.strip_prefix(r"\\") {
        Some(rest) => (r"\\", rest),
        None => ("", text),
    };
    let mut path = prefix.to_owned();
    for c in rest.chars().map(|c| if c == '/' { '\\' } else { c }) {
        if c != '\\' || !path.ends_with('\\') {
            path.push(c);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_paths_get_single_native_separators() {
        for (text, path) in [
            (r"C:\csi\csi.sock", r"C:\csi\csi.sock"),
            (r"C:\\csi\\csi.sock", r"C:\csi\csi.sock"),
            (r"C:/csi//csi.sock", r"C:\csi\csi.sock"),
            (r"/csi/csi.sock", r"\csi\csi.sock"),
            (r"\\.\C:\\csi/csi.sock", r"\\.\C:\csi\csi.sock"),
        ] {
            assert_eq!(Platform::Windows.path(text), PathBuf::from(path), "{text}");
        }
        assert_eq!(Platform::Unix.path(r"/csi\\x//csi.sock").as_os_str(), r"/csi\\x//csi.sock");
        for (platform, directory, path) in [
            (Platform::Windows, r"C:\\var\\lib\\kubelet\\plugins_registry\\", r"C:\var\lib\kubelet\plugins_registry\a"),
            (Platform::Windows, r"C:\registration", r"C:\registration\a"),
            (Platform::Windows, "/registration", r"\registration\a"),
            (Platform::Unix, "/registration", "/registration/a"),
            (Platform::Unix, "/registration//", "/registration/a"),
            (Platform::Unix, "/", "/a"),
        ] {
            assert_eq!(platform.join(directory, "a").as_os_str(), path, "{directory}");
        }
    }

    #[test]
    fn full_path_begins_with_a_drive_on_windows_only() {
        for (text, unix, windows) in [
            ("/csi.sock", true, true),
            (r"C:\csi.sock", false, true),
            ("c:/csi.sock", false, true),
            (r"\csi.sock", false, true),
            ("C:csi.sock", false, false),
            ("unix:/csi.sock", false, false),
            ("csi.sock", false, false),
            ("", false, false),
        ] {
            assert_eq!(Platform::Unix.is_full_path(text), unix, "{text}");
            assert_eq!(Platform::Windows.is_full_path(text), windows, "{text}");
        }
    }
}
