//! A layer in the format of Windows containers: a tar archive with `Files`, the contents of drive C, and `Hives`,
//! changes of the registry, which must exist but is empty here. Extended headers have the Windows properties of a file.

use std::io::Write;

use anyhow::{Context, bail};
use tar::{Builder, EntryType, Header};

use super::security::descriptor;
use crate::tree::{Node, Tree};

/// Windows attributes of a file and of a directory: archive, directory.
const FILE: &[u8] = b"32";
const DIRECTORY: &[u8] = b"16";

/// Returns the archive of a layer with these files on drive C.
///
/// # Errors
/// A file is a symbolic link, which this layer does not support.
pub(super) fn archive(files: &Tree, epoch: u64) -> anyhow::Result<Vec<u8>> {
    let mut all = Tree::default();
    all.add("Hives", Node::Directory)?;
    all.add("Files", Node::Directory)?;
    for (path, node) in files.nodes() {
        all.add(&format!("Files/{path}"), node.clone())?;
    }
    let mut archive = Builder::new(Vec::new());
    for (path, node) in all.nodes() {
        entry(&mut archive, path, node, epoch).with_context(|| format!("write {path}"))?;
    }
    archive.into_inner().context("finish the archive")
}

fn entry<W: Write>(archive: &mut Builder<W>, path: &str, node: &Node, epoch: u64) -> anyhow::Result<()> {
    let (kind, attributes, contents) = match node {
        Node::Directory => (EntryType::Directory, DIRECTORY, &[][..]),
        Node::File { contents, .. } => (EntryType::Regular, FILE, contents.as_slice()),
        Node::Link(_) => bail!("a link in a layer of Windows"),
    };
    let security = base64(&descriptor(kind == EntryType::Directory));
    let time = epoch.to_string();
    archive.append_pax_extensions([
        ("LIBARCHIVE.creationtime", time.as_bytes()),
        ("MSWINDOWS.fileattr", attributes),
        ("MSWINDOWS.rawsd", security.as_bytes()),
    ])?;
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(if kind == EntryType::Directory { 0o755 } else { 0o644 });
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(epoch);
    header.set_size(u64::try_from(contents.len())?);
    Ok(archive.append_data(&mut header, path, contents)?)
}

/// Encodes base64 (RFC 4648) with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte)) << (8 * (3 - group.len()));
        for nth in 0..4 {
            let digit = DIGITS[bits >> (18 - 6 * nth) & 63];
            text.push(if nth > group.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_examples_of_the_rfc() {
        let examples =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        for (bytes, text) in examples {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
