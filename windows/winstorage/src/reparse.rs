//! Parses and builds `REPARSE_DATA_BUFFER`: links, junctions and mount points. Tags are compared bit for bit.

use crate::host::EntryKind;
use crate::types::VolumeGuid;

/// `IO_REPARSE_TAG_MOUNT_POINT`: the mount point of a volume, or a junction.
pub const TAG_MOUNT_POINT: u32 = 0xA000_0003;
/// `IO_REPARSE_TAG_SYMLINK`
pub const TAG_SYMLINK: u32 = 0xA000_000C;

/// Size of the header: the tag, the length of the data, and two reserved bytes.
const HEAD: usize = 8;
/// End of the offsets and lengths of both names. For links, four bytes of flags follow.
const MOUNT_POINT_NAMES: usize = HEAD + 8;
const SYMLINK_NAMES: usize = HEAD + 12;
const RELATIVE: u32 = 1;
/// The prefix of Win32 names in the object manager.
const NT_PREFIX: &str = r"\??\";

/// Returns the kind of an entry with this reparse data, or `None` for an invalid buffer.
pub fn parse(buffer: &[u8], is_directory: bool) -> Option<EntryKind> {
    let tag = u32::from_le_bytes(buffer.get(..4)?.try_into().ok()?);
    match tag {
        TAG_MOUNT_POINT => {
            let name = substitute_name(buffer, MOUNT_POINT_NAMES)?;
            // Only the complete name of a volume makes a mount point. A path below a volume makes a junction.
            let volume = name.ends_with(r"}\").then(|| VolumeGuid::parse(&name).ok()).flatten();
            Some(volume.map_or_else(|| EntryKind::Junction { target: plain(&name) }, EntryKind::MountPoint))
        }
        TAG_SYMLINK => {
            let target = plain(&substitute_name(buffer, SYMLINK_NAMES)?);
            Some(EntryKind::SymbolicLink { target, is_directory })
        }
        tag => Some(EntryKind::OtherReparse(tag)),
    }
}

/// Builds the buffer that turns an empty directory or file into a symbolic link to `target`, a Win32 name. Returns
/// `None` if the target is too long.
pub fn symbolic_link(target: &str) -> Option<Vec<u8>> {
    let is_absolute = target.get(1..3) == Some(r":\") || target.starts_with(r"\\");
    let substitute = if is_absolute { nt_name(target) } else { target.to_owned() };
    let names: Vec<u16> = substitute.encode_utf16().chain(target.encode_utf16()).collect();
    let length = |text: &str| u16::try_from(text.encode_utf16().count() * 2).ok();
    let (substitute_length, print_length) = (length(&substitute)?, length(target)?);
    let data = u16::try_from(SYMLINK_NAMES - HEAD + names.len() * 2).ok()?;
    let mut buffer = TAG_SYMLINK.to_le_bytes().to_vec();
    for short in [data, 0, 0, substitute_length, substitute_length, print_length] {
        buffer.extend(short.to_le_bytes());
    }
    buffer.extend(if is_absolute { 0 } else { RELATIVE }.to_le_bytes());
    buffer.extend(names.into_iter().flat_map(u16::to_le_bytes));
    Some(buffer)
}

fn nt_name(target: &str) -> String {
    let unc = target.strip_prefix(r"\\").filter(|rest| !rest.starts_with(['?', '.']));
    match (target.strip_prefix(r"\\?\"), unc) {
        (Some(rest), _) => format!("{NT_PREFIX}{rest}"),
        (None, Some(share)) => format!(r"{NT_PREFIX}UNC\{share}"),
        (None, None) => format!("{NT_PREFIX}{target}"),
    }
}

fn substitute_name(buffer: &[u8], names: usize) -> Option<String> {
    let short = |at: usize| Some(usize::from(u16::from_le_bytes(buffer.get(at..at + 2)?.try_into().ok()?)));
    let end = HEAD.checked_add(short(4)?)?;
    let names = buffer.get(names..end)?;
    let from = short(HEAD)?;
    let bytes = names.get(from..from.checked_add(short(HEAD + 2)?)?)?;
    let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    String::from_utf16(&units.collect::<Vec<u16>>()).ok()
}

/// Returns a target without the object manager's prefix. A share has the form `\\host\share`.
fn plain(name: &str) -> String {
    match name.strip_prefix(NT_PREFIX) {
        None => name.to_owned(),
        Some(rest) => rest.strip_prefix(r"UNC\").map_or_else(|| rest.to_owned(), |share| format!(r"\\{share}")),
    }
}

#[cfg(test)]
mod tests;
