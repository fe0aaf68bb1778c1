//! Parses the header fields of a header block (RFC 7541, sections 5 and 6).

const AUTHORITY: &[u8] = b":authority";
/// The only Huffman code of `:authority`.
const AUTHORITY_CODED: &[u8] = &[0xb8, 0x3b, 0x53, 0x39, 0xec, 0x32, 0x7d, 0x7f];
/// The index of `:authority` in the static table. This entry has no value.
const AUTHORITY_ENTRY: usize = 1;
/// The encodings of a field without a value: entry 1 (`:authority`) and entry 38 (`host`) of the static table.
const EMPTY_AUTHORITY: u8 = 0x80 | 1;
const EMPTY_HOST: u8 = 0x80 | 38;
/// The shift of the last byte that an integer may have: the server reads at most four bytes after the first one.
const LAST_SHIFT: u32 = 21;

/// What the parsed bytes are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Bytes of an authority's value. `coded` is true if the value is Huffman-coded, and `last` if the value ends with
    /// these bytes.
    Authority {
        coded: bool,
        last: bool,
    },
    Other,
    /// Bytes that make the server close the connection.
    Broken,
}

/// Parses the header fields of consecutive header blocks.
#[derive(Debug)]
pub(crate) struct Fields {
    next: Next,
    /// Whether the field is an authority. If false, `look` treats the rest of the value as other bytes.
    pub(crate) is_authority: bool,
    coded: bool,
}

#[derive(Debug, Clone, Copy)]
enum Next {
    Field,
    /// The remaining bytes of an integer.
    Integer {
        of: Integer,
        value: usize,
        shift: u32,
    },
    Length(Integer),
    /// The rest of a name, of which `left` bytes are to come. `equal` is true while the name matches `:authority`.
    Name {
        left: usize,
        equal: bool,
    },
    Value {
        left: usize,
    },
}

#[derive(Debug, Clone, Copy)]
enum Integer {
    /// The index of a whole table entry, or a new size of the dynamic table. The field has no further bytes.
    Whole,
    NameIndex,
    NameLength,
    ValueLength,
}

impl Fields {
    pub(crate) fn new() -> Self {
        Self { next: Next::Field, is_authority: false, coded: false }
    }

    /// Returns true if a block may end here.
    pub(crate) fn is_between_fields(&self) -> bool {
        matches!(self.next, Next::Field)
    }

    /// Parses the beginning of `bytes`, which must not be empty. Returns how many bytes it parsed, and what they are.
    pub(crate) fn look(&mut self, bytes: &mut [u8]) -> (usize, Seen) {
        let Some(first) = bytes.first_mut() else { return (0, Seen::Other) };
        match self.next {
            Next::Field => {
                if *first == EMPTY_AUTHORITY {
                    *first = EMPTY_HOST;
                }
                self.field(*first);
            }
            Next::Length(of) => {
                self.coded = *first & 0x80 != 0;
                self.integer(of, *first, 7);
            }
            Next::Integer { of, value, shift } => {
                let value = value + (usize::from(*first & 0x7f) << shift);
                if *first & 0x80 == 0 {
                    self.have(of, value);
                } else if shift == LAST_SHIFT {
                    return (1, Seen::Broken);
                } else {
                    self.next = Next::Integer { of, value, shift: shift + 7 };
                }
            }
            Next::Name { left, equal } => return (self.name(left, equal, bytes), Seen::Other),
            Next::Value { left } => {
                let here = left.min(bytes.len());
                let last = here == left;
                self.next = if last { Next::Field } else { Next::Value { left: left - here } };
                let authority = Seen::Authority { coded: self.coded, last };
                return (here, if self.is_authority { authority } else { Seen::Other });
            }
        }
        (1, Seen::Other)
    }

    fn field(&mut self, first: u8) {
        self.is_authority = false;
        match first.leading_zeros() {
            0 => self.integer(Integer::Whole, first, 7),
            1 => self.integer(Integer::NameIndex, first, 6),
            2 => self.integer(Integer::Whole, first, 5),
            _ => self.integer(Integer::NameIndex, first, 4),
        }
    }

    /// Parses the first byte of an integer, of which the low `bits` belong to the integer.
    fn integer(&mut self, of: Integer, first: u8, bits: u32) {
        let most = (1 << bits) - 1;
        let value = usize::from(first) & most;
        if value < most {
            self.have(of, value);
        } else {
            self.next = Next::Integer { of, value, shift: 0 };
        }
    }

    fn have(&mut self, of: Integer, value: usize) {
        self.next = match of {
            Integer::Whole => Next::Field,
            Integer::NameIndex if value == 0 => Next::Length(Integer::NameLength),
            Integer::NameIndex => {
                self.is_authority = value == AUTHORITY_ENTRY;
                Next::Length(Integer::ValueLength)
            }
            Integer::NameLength if value == 0 => Next::Length(Integer::ValueLength),
            Integer::NameLength => Next::Name { left: value, equal: value == self.authority().len() },
            Integer::ValueLength if value == 0 => Next::Field,
            Integer::ValueLength => Next::Value { left: value },
        };
    }

    fn authority(&self) -> &'static [u8] {
        if self.coded { AUTHORITY_CODED } else { AUTHORITY }
    }

    fn name(&mut self, left: usize, equal: bool, bytes: &[u8]) -> usize {
        let here = left.min(bytes.len());
        let name = self.authority();
        let equal = equal && name[name.len() - left..].starts_with(&bytes[..here]);
        self.next = if here < left {
            Next::Name { left: left - here, equal }
        } else {
            self.is_authority = equal;
            Next::Length(Integer::ValueLength)
        };
        here
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::huffman;

    #[test]
    fn huffman_coded_authority_matches_the_encoder() {
        assert_eq!(huffman::encode(AUTHORITY), AUTHORITY_CODED);
    }
}
