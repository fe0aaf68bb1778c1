//! Parses the identifiers that a disk reports (`STORAGE_DEVICE_ID_DESCRIPTOR`). The bytes come from a device, so the
//! parser trusts no field.

/// The association of an identifier of the device itself, not of a port or target.
const ASSOCIATION_DEVICE: u32 = 0;
const CODE_SET_BINARY: u32 = 1;
const CODE_SET_ASCII: u32 = 2;
/// Sizes of the headers in bytes. The header of a descriptor has its version, size and count. The header of an
/// identifier has its code set, type, sizes and association.
const HEAD: usize = 12;
const IDENTIFIER_HEAD: usize = 16;

/// Returns the first identifier of the device itself: in lower-case hexadecimal if it is binary, unchanged if it is
/// ASCII, and empty if it is missing. Ignores identifiers beyond the end of the bytes.
pub fn identifier(descriptor: &[u8]) -> String {
    let count = number(descriptor, 8).unwrap_or(0);
    let size = number(descriptor, 4).and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
    let all = &descriptor[..size.min(descriptor.len())];
    let mut at = HEAD;
    for _ in 0..count {
        let Some(found) = Identifier::read(all, at) else { break };
        if let Some(text) = found.text() {
            return text;
        }
        // Stop at an offset that does not advance past the header. Otherwise the loop might never end.
        if found.next < IDENTIFIER_HEAD {
            break;
        }
        at += found.next;
    }
    String::new()
}

struct Identifier<'a> {
    code_set: u32,
    association: u32,
    bytes: &'a [u8],
    next: usize,
}

impl<'a> Identifier<'a> {
    fn read(all: &'a [u8], at: usize) -> Option<Self> {
        let head = all.get(at..at.checked_add(IDENTIFIER_HEAD)?)?;
        let short = |from: usize| Some(usize::from(u16::from_le_bytes(head.get(from..from + 2)?.try_into().ok()?)));
        let from = at + IDENTIFIER_HEAD;
        let bytes = all.get(from..from.checked_add(short(8)?)?)?;
        Some(Self { code_set: number(head, 0)?, association: number(head, 12)?, next: short(10)?, bytes })
    }

    fn text(&self) -> Option<String> {
        match (self.association, self.code_set) {
            (ASSOCIATION_DEVICE, CODE_SET_BINARY) => Some(hex::encode(self.bytes)),
            (ASSOCIATION_DEVICE, CODE_SET_ASCII) => Some(String::from_utf8_lossy(self.bytes).into_owned()),
            _ => None,
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;
