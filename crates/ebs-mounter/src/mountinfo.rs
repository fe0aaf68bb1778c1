//! The mount table: a parser of `/proc/<task>/mountinfo` (proc(5)) and queries.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::bounded;
use crate::options::split_words;
use crate::os::DeviceNumber;

/// The table of the calling thread. `/proc/self` would give the table of the first thread of the process.
const TABLE: &str = "/proc/thread-self/mountinfo";

/// A mount table that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum MountTableError {
    #[error("read the mount table")]
    Read(#[from] std::io::Error),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MountEntry {
    pub id: u64,
    pub parent: u64,
    /// The device of the file system. Its major number is 0 if the file system has no device.
    pub device: DeviceNumber,
    /// The directory of the file system that the mount shows: `/` unless it is a bind mount of a subdirectory.
    pub root: PathBuf,
    pub target: PathBuf,
    pub options: Vec<String>,
    pub fs_type: String,
    /// The source that was passed to mount(2).
    pub source: OsString,
    pub super_options: Vec<String>,
    /// True if other mount namespaces also see mounts below this one.
    pub is_shared: bool,
}

impl MountEntry {
    /// True if this mount rejects writes, whether or not the file system does.
    pub fn is_read_only(&self) -> bool {
        self.options.iter().any(|word| word == "ro")
    }

    /// True if the file system itself rejects writes.
    pub fn is_file_system_read_only(&self) -> bool {
        self.super_options.iter().any(|word| word == "ro")
    }
}

/// All mounts in the mount namespace of a thread, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MountTable(Vec<MountEntry>);

impl MountTable {
    /// Reads the table of this thread's mount namespace.
    pub async fn read() -> Result<Self, MountTableError> {
        let path = Path::new(TABLE);
        let text = bounded::reading("reading the mount table", path, move || std::fs::read(path)).await?;
        Ok(Self::parse(&text))
    }

    /// Parses the text of a table. An invalid line affects only its own path: the table lists a mount without a device
    /// there, and the mount's type describes the problem. Ignores a line without a path.
    pub fn parse(text: &[u8]) -> Self {
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let entry = |line| parse_line(line).map_or_else(|field| not_understood(line, field), Some);
        Self(lines.filter_map(entry).collect())
    }

    /// Returns the visible mount at a path if the path is a mount point. Of several stacked mounts, this is the newest.
    /// A mount below a directory that another mount hides is not visible.
    pub fn topmost(&self, target: &Path) -> Option<&MountEntry> {
        let newest = self.0.iter().rev().find(|entry| entry.target == target)?;
        // The parent of a mount whose line is invalid is unknown.
        let is_known = newest.id != 0;
        if is_known { self.seen(target).filter(|entry| entry.target == target) } else { Some(newest) }
    }

    /// Returns the stacked mounts at a path, from the visible one down.
    pub fn stack(&self, target: &Path) -> Vec<&MountEntry> {
        let mut stack: Vec<&MountEntry> = self.topmost(target).into_iter().collect();
        while let Some(top) = stack.last()
            && let Some(below) = self.0.iter().find(|entry| entry.id == top.parent && entry.target == target)
            && !stack.contains(&below)
        {
            stack.push(below);
        }
        stack
    }

    /// Returns the mount that contains a path, searching from the root mount down, or `None` if no mount contains it.
    pub fn seen(&self, path: &Path) -> Option<&MountEntry> {
        let listed: HashSet<u64> = self.0.iter().map(|entry| entry.id).collect();
        let mut at: Option<&MountEntry> = None;
        // Each step goes to another mount, so there are no more steps than mounts.
        for _step in 0..=self.0.len() {
            // An invalid line has neither a parent nor children.
            let is_known = |entry: &&MountEntry| entry.id != 0;
            let is_next = |entry: &&MountEntry| match at {
                Some(at) => entry.parent == at.id && entry.id != at.id,
                None => entry.parent == entry.id || !listed.contains(&entry.parent),
            };
            let next = self.0.iter().rev().filter(is_known).filter(is_next);
            let next = next.filter(|entry| path.starts_with(&entry.target));
            // Take the nearest mount on the path and, of several at one place, the newest.
            match next.min_by_key(|entry| entry.target.as_os_str().len()) {
                Some(next) => at = Some(next),
                None => break,
            }
        }
        at
    }

    /// Returns the number of stacked mounts at a path.
    pub fn depth(&self, target: &Path) -> usize {
        self.0.iter().filter(|entry| entry.target == target).count()
    }

    /// Returns every mount of a device's file system.
    pub fn of_device(&self, device: DeviceNumber) -> impl Iterator<Item = &MountEntry> {
        self.0.iter().filter(move |entry| entry.device == device)
    }

    /// Returns all mounts, oldest first.
    pub fn entries(&self) -> &[MountEntry] {
        &self.0
    }
}

/// Parses the fields of one line. The error names the invalid field.
fn parse_line(line: &[u8]) -> Result<MountEntry, &'static str> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut next = |name: &'static str| fields.next().filter(|field| !field.is_empty()).ok_or(name);
    let id = number(next("mount id")?).ok_or("mount id")?;
    let parent = number(next("parent id")?).ok_or("parent id")?;
    let device = device(next("device number")?).ok_or("device number")?;
    let root = path(next("root")?);
    let target = path(next("mount point")?);
    let options = words(next("options")?);
    // Any number of optional fields, ended by a hyphen.
    let mut is_shared = false;
    loop {
        match next("separator")? {
            b"-" => break,
            field => is_shared |= field.starts_with(b"shared:"),
        }
    }
    let fs_type = String::from_utf8(unescape(next("type")?)).map_err(|_| "type")?;
    // An empty source shows as two spaces in a row.
    let source = OsString::from_vec(unescape(fields.next().ok_or("source")?));
    let super_options = words(fields.next().unwrap_or_default());
    Ok(MountEntry { id, parent, device, root, target, options, fs_type, source, super_options, is_shared })
}

/// Returns a substitute entry for an invalid line if the line contains a mount point.
fn not_understood(line: &[u8], field: &'static str) -> Option<MountEntry> {
    let target = path(line.split(|byte| *byte == b' ').nth(4).filter(|field| !field.is_empty())?);
    tracing::warn!(target = %target.display(), "line of the mount table has an invalid {field}");
    Some(MountEntry {
        root: PathBuf::from("/"),
        target,
        fs_type: format!("a line of the mount table with an invalid {field}"),
        ..MountEntry::default()
    })
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn device(field: &[u8]) -> Option<DeviceNumber> {
    DeviceNumber::parse(std::str::from_utf8(field).ok()?)
}

fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape(field)))
}

/// Splits a field at commas. Quotes protect the commas of a security context; unpaired ones are ordinary characters.
fn words(field: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(&unescape(field)).into_owned();
    let words = split_words(&text).unwrap_or_else(|| text.split(',').collect());
    words.into_iter().map(str::to_owned).collect()
}

/// Decodes the octal escapes (`\ooo`) with which the kernel writes spaces, tabs, newlines, backslashes and the like.
pub(crate) fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        match (byte, octal(tail)) {
            (b'\\', Some(code)) => {
                plain.push(code);
                rest = &tail[3..];
            }
            _ => {
                plain.push(byte);
                rest = tail;
            }
        }
    }
    plain
}

fn octal(digits: &[u8]) -> Option<u8> {
    let digits =
        std::str::from_utf8(digits.get(..3)?).ok().filter(|d| d.bytes().all(|b| (b'0'..=b'7').contains(&b)))?;
    u8::from_str_radix(digits, 8).ok()
}

/// Returns a path as the mount table shows it, without symlinks in its directories. Does not resolve the last
/// component, so that a mount is found even if its root is no longer accessible.
pub(crate) fn as_in_table(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => parent
            .canonicalize()
            .map_or_else(|_| path.to_owned(), |parent| parent.join(OsString::from_vec(name.as_bytes().to_vec()))),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
22 27 0:20 / /proc rw,nosuid - proc proc rw
35 24 259:1 / /var/lib/a\\040b rw,relatime shared:1 master:2 - ext4 /dev/nvme1n1 rw,context=\"a:s0:c1,c2\"
36 35 259:2 / /var/lib/a\\040b ro,nosuid - xfs /dev/nvme2n1 rw
37 24 0:5 /nvme1n1 /target rw - devtmpfs  rw
";

    #[test]
    fn mountinfo_optional_fields_escapes_and_quotes_are_parsed() {
        let table = MountTable::parse(TEXT.as_bytes());
        let entry = &table.entries()[1];
        assert_eq!(entry.target, Path::new("/var/lib/a b"));
        assert_eq!(entry.device, DeviceNumber { major: 259, minor: 1 });
        assert_eq!(entry.super_options, ["rw", "context=\"a:s0:c1,c2\""]);
        assert_eq!(table.entries()[3].source, "");
        assert_eq!(table.entries()[3].root, Path::new("/nvme1n1"));
    }

    #[test]
    fn newest_of_stacked_mounts_is_visible() {
        let table = MountTable::parse(TEXT.as_bytes());
        let at = Path::new("/var/lib/a b");
        let top = table.topmost(at).unwrap();
        assert_eq!((top.id, top.fs_type.as_str()), (36, "xfs"));
        assert!(top.is_read_only() && !top.is_file_system_read_only());
        assert_eq!(table.depth(at), 2);
        assert_eq!(table.topmost(Path::new("/var/lib")), None);
    }

    #[test]
    fn mount_hidden_by_a_mount_on_a_parent_is_not_visible() {
        let table = "\
1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 8:2 / /var rw shared:7 - ext4 /dev/sda2 rw
3 2 259:1 / /var/lib/pods/a rw - ext4 /dev/nvme1n1 rw
4 2 0:40 / /var/lib rw - tmpfs none rw
5 4 259:2 / /var/lib/pods/b rw - xfs /dev/nvme2n1 rw
6 5 259:3 / /var/lib/pods/b rw - xfs /dev/nvme3n1 rw
";
        let table = MountTable::parse(table.as_bytes());
        let seen = |path: &str| table.topmost(Path::new(path)).map(|entry| entry.id);
        assert_eq!(seen("/var/lib/pods/a"), None, "the hidden mount");
        assert_eq!((seen("/var/lib"), seen("/var"), seen("/")), (Some(4), Some(2), Some(1)));
        assert_eq!(seen("/var/lib/pods/b"), Some(6), "and of two on top of each other the newest");
        let stack = |path: &str| table.stack(Path::new(path)).iter().map(|entry| entry.id).collect::<Vec<_>>();
        assert_eq!((stack("/var/lib/pods/b"), stack("/var/lib/pods/a"), stack("/")), (vec![6, 5], vec![], vec![1]));
        assert_eq!(table.seen(Path::new("/var/lib/pods/a/file")).map(|entry| entry.id), Some(4));
        assert_eq!(
            table.entries().iter().filter(|entry| entry.is_shared).map(|entry| entry.id).collect::<Vec<_>>(),
            [2]
        );
    }

    #[test]
    fn unpaired_quote_in_options_is_accepted() {
        let line = "99 24 0:77 / /mnt/share rw - cifs //server/share rw,username=o\"neill,domain=x\n";
        let table = MountTable::parse(format!("{TEXT}{line}").as_bytes());
        let entry = table.topmost(Path::new("/mnt/share")).unwrap();
        assert_eq!(entry.super_options, ["rw", "username=o\"neill", "domain=x"]);
        assert_eq!(table.entries().len(), 5);
    }

    #[test]
    fn invalid_line_affects_only_its_own_path() {
        for (bad, field) in [
            ("22 27 0:20 / /mnt/share rw - cifs\n", "source"),
            ("x 27 259:1 / /mnt/share rw - ext4 /dev/nvme1n1 rw\n", "mount id"),
            ("22 27 259 / /mnt/share rw - ext4 /dev/nvme1n1 rw\n", "device number"),
            ("22 27 0:20 / /mnt/share rw shared:1\n", "separator"),
        ] {
            let table = MountTable::parse(format!("{TEXT}{bad}").as_bytes());
            let fine = MountTable::parse(TEXT.as_bytes());
            assert_eq!(table.entries()[..4], *fine.entries(), "{bad}");
            // There is a mount, but it is not a volume.
            let entry = table.topmost(Path::new("/mnt/share")).expect(bad);
            assert!(entry.fs_type.contains(field), "{entry:?}");
            assert_eq!(entry.device.major, 0);
            assert_eq!(table.of_device(DeviceNumber { major: 259, minor: 1 }).count(), 1);
        }
        // The line is too short to contain a path.
        assert_eq!(MountTable::parse(format!("{TEXT}22 27\n").as_bytes()).entries().len(), 4);
    }

    #[test]
    fn mount_table_with_many_mounts_is_searched_quickly() {
        let mounts = 200_000;
        let mut text = String::from("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
        for id in 2..=mounts {
            text.push_str(&format!("{id} 1 0:40 / /m{id} rw - tmpfs none rw\n"));
        }
        let table = MountTable::parse(text.as_bytes());
        let last = format!("/m{mounts}");
        assert_eq!(table.topmost(Path::new(&last)).map(|entry| entry.id), Some(mounts));
        assert_eq!(table.seen(Path::new("/elsewhere")).map(|entry| entry.id), Some(1));
    }

    proptest! {
        #[test]
        fn mount_table_queries_terminate_for_any_parent_ids(parents in proptest::collection::vec((0_u64..6, 0_usize..4), 0..8)) {
            let paths = ["/", "/a", "/a/b", "/c"];
            let line = |(id, (parent, path)): (usize, &(u64, usize))| {
                format!("{} {parent} 259:1 / {} rw - ext4 /dev/x rw\n", id + 1, paths[*path])
            };
            let table = MountTable::parse(parents.iter().enumerate().map(line).collect::<String>().as_bytes());
            for path in paths {
                let _ = table.stack(Path::new(path));
            }
        }

        #[test]
        fn escaped_path_is_decoded(name in "[a-z \t\\\\#é]{1,20}") {
            let escaped: String = name
                .bytes()
                .map(|b| if b.is_ascii_lowercase() { char::from(b).to_string() } else { format!("\\{b:03o}") })
                .collect();
            let line = format!("1 2 3:4 / /{escaped} rw - ext4 /dev/x rw\n");
            let table = MountTable::parse(line.as_bytes());
            prop_assert_eq!(&table.entries()[0].target, &PathBuf::from(format!("/{name}")));
        }
    }
}
