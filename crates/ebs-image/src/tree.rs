//! A tree of files that belong to root and are writable only by root. The type has no other permissions.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use tar::{EntryType, Header};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    Directory,
    File {
        contents: Vec<u8>,
        executable: bool,
    },
    /// A symbolic link with its target.
    Link(String),
}

impl Node {
    fn mode(&self) -> u32 {
        match self {
            Self::Directory | Self::File { executable: true, .. } => 0o755,
            Self::File { executable: false, .. } => 0o644,
            Self::Link(_) => 0o777,
        }
    }
}

/// Nodes by path, without a leading slash. The parents of a node are directories or missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree(BTreeMap<String, Node>);

impl Tree {
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.0.iter().map(|(path, node)| (path.as_str(), node))
    }

    /// Adds a node with its parents.
    ///
    /// # Errors
    /// A different entry exists.
    pub fn add(&mut self, path: &str, node: Node) -> anyhow::Result<()> {
        ensure!(!path.is_empty() && !path.starts_with('/'), "{path:?} is not a valid path in the image");
        for (end, _) in path.match_indices('/') {
            self.put(&path[..end], Node::Directory)?;
        }
        self.put(path, node)
    }

    /// Adds a file that everyone may read.
    ///
    /// # Errors
    /// As [`Tree::add`].
    pub fn file(&mut self, path: &str, contents: impl Into<Vec<u8>>) -> anyhow::Result<()> {
        self.add(path, Node::File { contents: contents.into(), executable: false })
    }

    fn put(&mut self, path: &str, node: Node) -> anyhow::Result<()> {
        let there = self.0.entry(path.to_owned()).or_insert_with(|| node.clone());
        ensure!(*there == node, "{path} is in the image twice with different contents");
        Ok(())
    }

    /// Adds everything of `other`.
    ///
    /// # Errors
    /// The trees have different entries at one path.
    pub fn join(&mut self, other: &Self) -> anyhow::Result<()> {
        other.nodes().try_for_each(|(path, node)| self.put(path, node.clone()))
    }

    /// Writes a tar archive, sorted by path, with one time for all entries.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn archive(&self, to: impl Write, epoch: u64) -> anyhow::Result<()> {
        let mut archive = tar::Builder::new(to);
        for (path, node) in self.nodes() {
            let mut header = Header::new_gnu();
            header.set_mode(node.mode());
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(epoch);
            let written = match node {
                Node::Directory => {
                    header.set_entry_type(EntryType::Directory);
                    header.set_size(0);
                    archive.append_data(&mut header, format!("{path}/"), [].as_slice())
                }
                Node::File { contents, .. } => {
                    header.set_entry_type(EntryType::Regular);
                    header.set_size(u64::try_from(contents.len())?);
                    archive.append_data(&mut header, path, contents.as_slice())
                }
                Node::Link(to) => {
                    header.set_entry_type(EntryType::Symlink);
                    header.set_size(0);
                    archive.append_link(&mut header, path, to)
                }
            };
            written.with_context(|| format!("write {path}"))?;
        }
        archive.into_inner().context("finish the archive")?.flush().context("write the archive")
    }

    /// Writes the files below an existing directory, for another packer. The owner is the user of this process.
    ///
    /// # Errors
    /// An entry cannot be created; the error names it.
    pub fn write(&self, to: &Path, epoch: u64) -> anyhow::Result<()> {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(epoch);
        for (path, node) in self.nodes() {
            let place = to.join(path);
            let named = || format!("make {}", place.display());
            match node {
                Node::Directory => fs::create_dir_all(&place).with_context(named)?,
                Node::Link(to) => symlink(to, &place).with_context(named)?,
                Node::File { contents, .. } => {
                    fs::write(&place, contents).with_context(named)?;
                    fs::set_permissions(&place, fs::Permissions::from_mode(node.mode())).with_context(named)?;
                    let file = File::options().write(true).open(&place).with_context(named)?;
                    file.set_times(FileTimes::new().set_modified(time)).with_context(named)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(paths: &[&str]) -> Tree {
        let mut tree = Tree::default();
        for path in paths {
            tree.file(path, *path).unwrap();
        }
        tree
    }

    fn archived(tree: &Tree) -> Vec<u8> {
        let mut bytes = Vec::new();
        tree.archive(&mut bytes, 1_700_000_000).unwrap();
        bytes
    }

    #[test]
    fn archive_does_not_depend_on_the_order_of_additions() {
        assert_eq!(archived(&of(&["usr/bin/a", "etc/b"])), archived(&of(&["etc/b", "usr/bin/a"])));
        assert_ne!(archived(&of(&["usr/bin/a"])), archived(&of(&["usr/bin/b"])));
    }

    #[test]
    fn every_entry_belongs_to_root_with_minimal_permissions() {
        let mut tree = of(&["usr/share/doc/a"]);
        tree.add("usr/bin/run", Node::File { contents: vec![1], executable: true }).unwrap();
        tree.add("bin", Node::Link("usr/bin".to_owned())).unwrap();
        let bytes = archived(&tree);
        let mut modes = Vec::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            assert_eq!(header.mtime().unwrap(), 1_700_000_000);
            modes.push((entry.path().unwrap().display().to_string(), header.mode().unwrap()));
        }
        let seen: Vec<(&str, u32)> = modes.iter().map(|(path, mode)| (path.as_str(), *mode)).collect();
        assert_eq!(
            seen,
            [
                ("bin", 0o777),
                ("usr/", 0o755),
                ("usr/bin/", 0o755),
                ("usr/bin/run", 0o755),
                ("usr/share/", 0o755),
                ("usr/share/doc/", 0o755),
                ("usr/share/doc/a", 0o644),
            ]
        );
    }

    #[test]
    fn different_file_at_the_same_path_is_an_error() {
        let mut tree = of(&["etc/a"]);
        tree.file("etc/a", "etc/a").unwrap();
        assert!(tree.file("etc/a", "other").is_err());
        assert!(tree.file("etc/a/below", "a file").is_err());
        assert!(tree.file("/etc/b", "absolute").is_err());
    }
}
