//! The file of the registration socket. This module replaces a stale file, checks that the socket still exists, and
//! removes the socket.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use crate::local::Listener;
use crate::platform::Platform;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("create {}: exists and is not a socket; remove it, or set another --plugin-registration-path", path.display())]
    NotASocket { path: PathBuf },
    #[error("open directory {} of the registration socket: not found; mount the kubelet's plugins_registry there, or set another --plugin-registration-path", directory.display())]
    NoDirectory { directory: PathBuf },
    #[error("{step} at {}", path.display())]
    Io {
        step: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
}

/// Returns whether a file at the path of the socket may be replaced. A socket there belongs to a previous process, or
/// to one that this process replaces. Windows does not report which files are sockets.
fn may_replace(is_socket: bool, platform: Platform) -> bool {
    is_socket || platform == Platform::Windows
}

/// Identifies a file. While this process holds the socket, any other file at the same path has a different identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    volume: u64,
    file: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Ours,
    Gone,
    /// Another file, because another registrar has taken over.
    Another,
}

#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: Identity,
}

impl SocketFile {
    /// Binds a socket at `path`, and replaces an existing one, but no other file. Must be called in a runtime.
    pub(crate) fn bind(path: &Path) -> Result<(Listener, Self), SocketError> {
        let failed = |step, cause| SocketError::Io { step, path: path.to_owned(), cause };
        match std::fs::symlink_metadata(path) {
            Ok(found) if may_replace(is_socket(&found), Platform::HERE) => {
                tracing::info!(path = %path.display(), "removing the socket of a previous process");
                remove(path).map_err(|cause| failed("remove the stale socket", cause))?;
            }
            Ok(_) => return Err(SocketError::NotASocket { path: path.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(failed("check for an existing file", cause)),
        }
        let listener = Listener::local(path).map_err(|(step, cause)| match path.parent() {
            Some(directory) if !directory.exists() => SocketError::NoDirectory { directory: directory.to_owned() },
            _ => failed(step, cause),
        })?;
        let identity = identity(path).map_err(|cause| failed("check the new socket", cause))?;
        Ok((listener, Self { path: path.to_owned(), identity }))
    }

    pub(crate) fn standing(&self) -> io::Result<Standing> {
        match identity(&self.path) {
            Ok(identity) if identity == self.identity => Ok(Standing::Ours),
            Ok(_) => Ok(Standing::Another),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Standing::Gone),
            Err(error) => Err(error),
        }
    }

    /// Removes the file if it still belongs to this process. The kubelet then unregisters the driver.
    pub(crate) fn remove(&self) {
        let removed = match self.standing() {
            Ok(Standing::Ours) => remove(&self.path),
            Ok(Standing::Gone) => Ok(()),
            Ok(Standing::Another) => {
                let path = self.path.display();
                return tracing::info!(%path, "keeping the registration socket, which now belongs to another process");
            }
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!(path = %self.path.display(), %error, "failed to remove the registration socket");
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(unix)]
pub(crate) fn is_socket(metadata: &Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type())
}

/// Always returns false, because Windows does not report which files are sockets.
#[cfg(windows)]
pub(crate) fn is_socket(_metadata: &Metadata) -> bool {
    false
}

/// Identifies a file by its inode. While this process holds the socket, the kernel keeps its inode, so no other file
/// gets the same number.
#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::symlink_metadata(path)?;
    Ok(Identity { volume: metadata.dev(), file: metadata.ino() })
}

/// Identifies a file by its number, which on NTFS includes a count of reuses. The creation time would not identify it:
/// a file that replaces another one within 15 s inherits its creation time (Microsoft, KB 172190).
#[cfg(windows)]
fn identity(path: &Path) -> io::Result<Identity> {
    use std::os::windows::fs::OpenOptionsExt;
    /// Open the socket itself: it is a reparse point that Windows cannot follow. The second flag also permits opening a
    /// directory.
    const ITSELF: u32 = 0x0020_0000 | 0x0200_0000;
    let file = std::fs::File::options().access_mode(0).custom_flags(ITSELF).open(path)?;
    let information = winapi_util::file::information(&file)?;
    Ok(Identity { volume: information.volume_serial_number(), file: information.file_index() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_socket_file_may_be_replaced_only_on_windows() {
        let replaces = |is_socket| [Platform::Unix, Platform::Windows].map(|platform| may_replace(is_socket, platform));
        assert_eq!((replaces(true), replaces(false)), ([true, true], [false, true]));
    }

    /// On Windows, a file that replaces another one inherits the old file's creation time (KB 172190), so the creation
    /// time cannot distinguish the two files. Wine sets no creation times, so under Wine the test only covers files
    /// with different times.
    #[cfg(windows)]
    #[test]
    fn files_with_equal_creation_times_are_distinguished() {
        use std::os::windows::fs::FileTimesExt;
        let dir = tempfile::tempdir().unwrap();
        let paths = ["first", "second"].map(|name| dir.path().join(name));
        let times = std::fs::FileTimes::new().set_created(std::time::SystemTime::UNIX_EPOCH);
        let standing = paths.each_ref().map(|path| {
            let file = std::fs::File::create(path).unwrap();
            file.set_times(times).unwrap();
            SocketFile { path: path.clone(), identity: identity(path).unwrap() }
        });
        assert_eq!(standing[0].standing().unwrap(), Standing::Ours);
        // Let the second registrar's socket replace the first one's.
        let taken = SocketFile { path: paths[1].clone(), identity: standing[0].identity };
        assert_eq!(taken.standing().unwrap(), Standing::Another);
    }

    #[cfg(unix)]
    mod on_disk {
        use std::os::unix::fs::PermissionsExt;

        use super::*;

        #[tokio::test]
        async fn stale_socket_is_replaced_and_a_file_is_not() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("d-reg.sock");
            drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
            let (listener, file) = SocketFile::bind(&path).unwrap();
            assert_eq!(file.standing().unwrap(), Standing::Ours);
            drop((listener, file));

            let file = dir.path().join("file-reg.sock");
            std::fs::write(&file, "kept").unwrap();
            std::os::unix::fs::symlink(&path, dir.path().join("link-reg.sock")).unwrap();
            for name in ["file-reg.sock", "link-reg.sock"] {
                let error = SocketFile::bind(&dir.path().join(name)).unwrap_err();
                assert!(matches!(error, SocketError::NotASocket { .. }), "{name}: {error}");
            }
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
            let nowhere = SocketFile::bind(&dir.path().join("no/d-reg.sock")).unwrap_err();
            assert!(matches!(nowhere, SocketError::NoDirectory { .. }), "{nowhere}");
        }

        #[tokio::test]
        async fn socket_is_private_and_the_umask_is_unchanged() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("d-reg.sock");
            let (_listener, _file) = SocketFile::bind(&path).unwrap();
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o700);
            // The mode of a new file shows which bits the umask removes.
            let other = dir.path().join("other");
            std::fs::write(&other, "").unwrap();
            let before = std::fs::metadata(&other).unwrap().permissions().mode();
            let (_listener, _file) = SocketFile::bind(&dir.path().join("e-reg.sock")).unwrap();
            std::fs::write(dir.path().join("another"), "").unwrap();
            assert_eq!(std::fs::metadata(dir.path().join("another")).unwrap().permissions().mode(), before);
        }
    }
}
