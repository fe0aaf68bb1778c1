//! Parses a directory listing of Windows, which is a chain of `FILE_FULL_DIR_INFO` records.

const NAME_LENGTH: usize = 60;
const NAME: usize = 68;

/// Returns the names in a buffer that Windows has filled, except `.` and `..`. Returns `None` if the listing is
/// invalid.
pub fn names(buffer: &[u8]) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        let entry = buffer.get(at..)?;
        let length = number(entry, NAME_LENGTH)?;
        let bytes = entry.get(NAME..NAME.checked_add(length)?)?;
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        // A replacement character stands for invalid UTF-16, so opening such a name fails with "not found".
        let name = String::from_utf16_lossy(&units);
        if name != "." && name != ".." {
            found.push(name);
        }
        match number(entry, 0)? {
            0 => return Some(found),
            next if next < NAME => return None,
            next => at += next,
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?)).ok()
}

#[cfg(test)]
mod tests;
