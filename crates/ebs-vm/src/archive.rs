//! The guest's root file system as a cpio archive ("newc"), which the kernel unpacks into memory.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use ebs_testkit::process::run_tool;

const LDD: &str = "/usr/bin/ldd";
const BOUND: Duration = Duration::from_secs(60);
/// Kinds of a file in its mode.
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// An archive in creation. An existing path is not added again.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    names: BTreeSet<PathBuf>,
}

impl Archive {
    /// Adds a directory with its parents.
    pub fn directory(&mut self, path: &str) {
        let path = Path::new(path);
        let all: Vec<&Path> = path.ancestors().filter(|above| above.parent().is_some()).collect();
        for above in all.into_iter().rev() {
            self.entry(above, DIRECTORY | 0o755, &[]);
        }
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, to: &str) {
        self.entry(Path::new(path), LINK | 0o777, to.as_bytes());
    }

    /// Adds a file with these contents.
    pub fn file(&mut self, path: &str, contents: &[u8], mode: u32) {
        if let Some(parent) = Path::new(path).parent().and_then(Path::to_str) {
            self.directory(parent);
        }
        self.entry(Path::new(path), REGULAR | mode, contents);
    }

    /// Adds a file of this machine.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn copy(&mut self, from: &Path, path: &str) -> anyhow::Result<()> {
        let named = || format!("read {}", from.display());
        let mode = fs::metadata(from).with_context(named)?.permissions().mode() & 0o777;
        self.file(path, &fs::read(from).with_context(named)?, mode);
        Ok(())
    }

    /// Adds a program of this machine with its libraries.
    ///
    /// # Errors
    /// It is missing or cannot be read.
    pub fn program(&mut self, from: &Path, path: &str) -> anyhow::Result<()> {
        self.copy(from, path)?;
        // ldd fails for a program without libraries.
        let Ok(listed) = run_tool(LDD, &[&from.to_string_lossy()], BOUND) else { return Ok(()) };
        for library in libraries(&listed) {
            self.copy(Path::new(library), library)?;
        }
        Ok(())
    }

    /// Writes the archive.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(mut self, to: &Path) -> io::Result<()> {
        self.header("TRAILER!!!", 0, 0);
        fs::write(to, self.bytes)
    }

    fn entry(&mut self, path: &Path, mode: u32, contents: &[u8]) {
        if path.parent().is_none() || !self.names.insert(path.to_owned()) {
            return;
        }
        self.header(path.to_string_lossy().trim_start_matches('/'), mode, contents.len());
        self.bytes.extend_from_slice(contents);
        self.pad();
    }

    fn header(&mut self, name: &str, mode: u32, size: usize) {
        let number = self.names.len();
        // Magic, inode, mode, owner, group, links, time, size, device and its node (two numbers each), length of the
        // name, checksum.
        let fields = [number, usize::try_from(mode).unwrap_or(0), 0, 0, 1, 0, size, 0, 0, 0, 0, name.len() + 1, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// Returns the absolute paths in ldd's output: `name => path (address)` or `path (address)`.
fn libraries(listed: &str) -> impl Iterator<Item = &str> {
    listed.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_a_program_are_those_that_ldd_finds() {
        let listed = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\t/lib64/ld.so (0x3)\n";
        assert_eq!(libraries(listed).collect::<Vec<_>>(), ["/lib/libc.so.6", "/lib64/ld.so"]);
    }

    #[test]
    fn entry_parts_are_padded_to_four_bytes() {
        let mut archive = Archive::default();
        archive.file("/etc/a", b"hello", 0o644);
        archive.file("/etc/a", b"again", 0o644);
        assert!(archive.bytes.len().is_multiple_of(4));
        let text = String::from_utf8_lossy(&archive.bytes).into_owned();
        assert_eq!(text.matches("070701").count(), 2, "a directory and a file");
        assert!(text.contains("etc/a\0") && text.contains("hello\0\0\0"), "{text:?}");
        assert!(text.contains("000081a4"), "the file's mode: {text:?}");
    }
}
