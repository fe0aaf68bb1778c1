//! Paths that the orchestrator sends: their validation, and the kind of file at each.

use std::fmt;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use crate::bounded;
use crate::mountinfo::as_in_table;
use crate::os::if_exists;

const MAX_BYTES: usize = 4095;
/// Errors of a mount whose disk or server no longer exists.
const DEAD_MOUNT_ERRORS: [rustix::io::Errno; 8] = {
    use rustix::io::Errno;
    [Errno::NOTCONN, Errno::STALE, Errno::IO, Errno::ACCESS, Errno::HOSTDOWN, Errno::AGAIN, Errno::NODEV, Errno::NXIO]
};

/// A text that is not an acceptable path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("path {path:?} {rule}")]
pub struct PathError {
    path: String,
    rule: &'static str,
}

/// A path as the orchestrator sent it: absolute, without `..`, and not the root. The file may not exist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodePath(PathBuf);

impl NodePath {
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let refuse = |rule| Err(PathError { path: text.to_owned(), rule });
        let path = Path::new(text);
        if text.contains('\0') {
            return refuse("contains a NUL character");
        }
        if text.len() > MAX_BYTES {
            return refuse("is longer than 4095 bytes");
        }
        if !path.is_absolute() {
            return refuse("is relative; it must be absolute");
        }
        if path.components().any(|part| part == Component::ParentDir) {
            return refuse("contains `..`");
        }
        // Collecting the components drops `.`, double slashes and trailing slashes.
        let path: PathBuf = path.components().collect();
        if path.file_name().is_none() {
            return refuse("is the root directory");
        }
        Ok(Self(path))
    }

    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// Returns the path as the mount table shows it: with symlinks resolved, except in the last component.
    pub async fn in_table(&self) -> io::Result<PathBuf> {
        let path = self.0.clone();
        bounded::reading("resolving", &self.0, move || Ok(as_in_table(&path))).await
    }

    /// Returns the kind of file at the path. Does not follow a symlink in the last component.
    pub async fn kind(&self) -> io::Result<PathKind> {
        let path = self.0.clone();
        bounded::reading("examining", &self.0, move || kind_of(&path)).await
    }

    /// Creates the directory and its parents with mode 0755. It may already exist.
    pub async fn create_directory(&self) -> io::Result<()> {
        let path = self.0.clone();
        bounded::changing("creating", &self.0, move || directory(&path)).await
    }

    /// Creates an empty file with mode 0644, in directories with mode 0755. The file may already exist.
    pub async fn create_file(&self) -> io::Result<()> {
        let path = self.0.clone();
        let create = move || {
            path.parent().map_or(Ok(()), directory)?;
            let created = std::fs::File::options().write(true).create_new(true).mode(0o644).open(&path);
            match created {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                outcome => outcome.map(drop),
            }
        };
        bounded::changing("creating", &self.0, create).await
    }

    /// Removes a mount target: an empty directory or an empty file, and nothing else. It may already be missing.
    pub async fn remove(&self) -> io::Result<()> {
        let path = self.0.clone();
        let remove = move || match kind_of(&path)? {
            PathKind::Missing => Ok(()),
            PathKind::Directory { .. } => std::fs::remove_dir(&path),
            PathKind::File { bytes: 0 } => std::fs::remove_file(&path),
            PathKind::File { bytes } => {
                Err(io::Error::other(format!("it is a file of {bytes} bytes that this driver did not create")))
            }
            other => Err(io::Error::other(format!("it is {other}, and this driver did not create it"))),
        };
        if_exists(bounded::changing("removing", &self.0, remove).await).map(drop)
    }
}

impl fmt::Display for NodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

/// The kind of file at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathKind {
    Missing,
    /// A directory, or a mount of a file system.
    Directory {
        empty: bool,
    },
    File {
        bytes: u64,
    },
    /// A block device, which may be bound to the path.
    BlockDevice,
    Symlink,
    /// A socket, a pipe or a character device.
    Other,
    /// A mount that returns an error as if its disk had vanished. Kubernetes calls it a corrupted mount.
    DeadMount(String),
}

impl fmt::Display for PathKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("missing"),
            Self::Directory { empty: true } => f.write_str("an empty directory"),
            Self::Directory { empty: false } => f.write_str("a directory that is not empty"),
            Self::File { bytes } => write!(f, "a file of {bytes} bytes"),
            Self::BlockDevice => f.write_str("a block device"),
            Self::Symlink => f.write_str("a symbolic link"),
            Self::Other => f.write_str("neither a directory nor a regular file"),
            Self::DeadMount(error) => write!(f, "a mount that returns the error {error}"),
        }
    }
}

/// True for an error that a mount without its disk returns.
pub(crate) fn is_dead_mount(error: &io::Error) -> bool {
    rustix::io::Errno::from_io_error(error).is_some_and(|errno| DEAD_MOUNT_ERRORS.contains(&errno))
}

fn kind_of(path: &Path) -> io::Result<PathKind> {
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(PathKind::Missing),
        Err(error) if is_dead_mount(&error) => return Ok(PathKind::DeadMount(error.to_string())),
        Err(error) => return Err(error),
    };
    let kind = metadata.file_type();
    Ok(if kind.is_symlink() {
        PathKind::Symlink
    } else if kind.is_dir() {
        match std::fs::read_dir(path) {
            Ok(mut entries) => PathKind::Directory { empty: entries.next().is_none() },
            Err(error) if is_dead_mount(&error) => PathKind::DeadMount(error.to_string()),
            Err(error) => return Err(error),
        }
    } else if kind.is_file() {
        PathKind::File { bytes: metadata.len() }
    } else if kind.is_block_device() {
        PathKind::BlockDevice
    } else {
        PathKind::Other
    })
}

fn directory(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_must_be_absolute_without_dot_dot_and_not_the_root() {
        for (bad, rule) in [
            ("", "relative"),
            ("a/b", "relative"),
            ("/a/../b", "`..`"),
            ("/", "root"),
            ("//.", "root"),
            ("/a\0b", "NUL"),
            (&format!("/{}", "a".repeat(4095)), "4095"),
        ] {
            let message = NodePath::parse(bad).unwrap_err().to_string();
            assert!(message.contains(rule), "{bad:?}: {message}");
        }
        assert_eq!(NodePath::parse("/a//b/./c/").unwrap().as_path(), Path::new("/a/b/c"));
    }

    #[tokio::test]
    async fn remove_accepts_only_empty_directories_and_empty_files() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| NodePath::parse(root.path().join(name).to_str().unwrap()).unwrap();
        at("d/e").create_directory().await.unwrap();
        at("f/g").create_file().await.unwrap();
        at("f/g").create_file().await.unwrap();
        std::fs::write(root.path().join("data"), "x").unwrap();
        std::os::unix::fs::symlink("data", root.path().join("link")).unwrap();
        assert_eq!(at("link").kind().await.unwrap(), PathKind::Symlink);
        assert_eq!(at("f/g").kind().await.unwrap(), PathKind::File { bytes: 0 });
        assert_eq!(at("d").kind().await.unwrap(), PathKind::Directory { empty: false });
        for full in ["d", "data", "link"] {
            assert!(at(full).remove().await.is_err(), "{full} was removed");
        }
        for ours in ["d/e", "f/g", "missing"] {
            at(ours).remove().await.unwrap();
            assert_eq!(at(ours).kind().await.unwrap(), PathKind::Missing);
        }
        assert!(root.path().join("data").exists() && root.path().join("link").is_symlink());
    }
}
