//! Runs `losetup` and `blockdev` of util-linux, so that this crate can set up loop devices without `unsafe`. Both are
//! started by absolute path and with a cleared environment. No other module of this crate starts child processes.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const DIRECTORIES: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
/// Maximum number of attempts: another program may take the free device that losetup has found.
const TRIES: usize = 5;

#[derive(Debug)]
pub(super) struct Losetup {
    path: PathBuf,
}

impl Losetup {
    pub(super) fn find() -> Result<Self, String> {
        DIRECTORIES
            .iter()
            .map(|dir| Path::new(dir).join("losetup"))
            .find(|path| path.is_file())
            .map(|path| Self { path })
            .ok_or_else(|| "run losetup: not found; install util-linux (Debian: apt-get install mount)".to_owned())
    }

    /// Connects a file to a free loop device and returns the device's path.
    pub(super) fn connect(&self, file: &Path) -> io::Result<PathBuf> {
        let mut last = io::Error::other("not tried");
        for _ in 0..TRIES {
            match self.run([
                OsStr::new("--find"),
                OsStr::new("--show"),
                OsStr::new("--direct-io=off"),
                file.as_os_str(),
            ]) {
                Ok(device) => {
                    let device = PathBuf::from(device.trim());
                    self.clear_read_only(&device)?;
                    return Ok(device);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Disconnects a device. A device that is open elsewhere disappears when its last user closes it.
    pub(super) fn disconnect(&self, device: &Path) -> io::Result<()> {
        self.clear_read_only(device)?;
        self.run([OsStr::new("--detach"), device.as_os_str()]).map(drop)
    }

    pub(super) fn take_over_size(&self, device: &Path) -> io::Result<()> {
        self.run([OsStr::new("--set-capacity"), device.as_os_str()]).map(drop)
    }

    pub(super) fn set_read_only(&self, device: &Path, read_only: bool) -> io::Result<()> {
        let flag = OsStr::new(if read_only { "--setro" } else { "--setrw" });
        run(&self.path.with_file_name("blockdev"), [flag, device.as_os_str()]).map(drop)
    }

    /// Clears the read-only flag. The kernel keeps the flag on the device, even for the next file that is connected to
    /// the device.
    fn clear_read_only(&self, device: &Path) -> io::Result<()> {
        let mark = Path::new("/sys/block").join(device.file_name().unwrap_or_default()).join("ro");
        if std::fs::read_to_string(mark).is_ok_and(|mark| mark.trim() == "1") {
            self.set_read_only(device, false)?;
        }
        Ok(())
    }

    fn run<'a>(&self, arguments: impl IntoIterator<Item = &'a OsStr>) -> io::Result<String> {
        run(&self.path, arguments)
    }
}

fn run<'a>(program: &Path, arguments: impl IntoIterator<Item = &'a OsStr>) -> io::Result<String> {
    #[expect(clippy::disallowed_methods, reason = "the only module of this crate that starts child processes")]
    let mut command = std::process::Command::new(program);
    let output = command.args(arguments).env_clear().env("LC_ALL", "C").stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{} failed with {}: {}", program.display(), output.status, said.trim())))
}
