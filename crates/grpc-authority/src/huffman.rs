//! The Huffman code of HPACK (RFC 7541, section 5.2 and appendix B).

/// The code length in bits of each byte, and of the end-of-string symbol. The lengths alone define the code, because
/// longer codes have higher numbers, and codes of the same length are numbered in the order of their bytes.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,  5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,  6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];
const SYMBOLS: usize = 257;
const LONGEST: usize = 30;

static CODE: Code = Code::new();

struct Code {
    /// The code of each symbol, in the low bits.
    codes: [u32; SYMBOLS],
    /// The symbols, in the order of their codes.
    sorted: [u16; SYMBOLS],
    /// For each length: the first code, the index in `sorted` of that code's symbol, and the number of codes.
    lengths: [(u32, usize, u32); LONGEST + 1],
}

impl Code {
    const fn new() -> Self {
        let mut code = Self { codes: [0; SYMBOLS], sorted: [0; SYMBOLS], lengths: [(0, 0, 0); LONGEST + 1] };
        let (mut next, mut place, mut length) = (0_u32, 0, 1);
        while length <= LONGEST {
            next <<= 1;
            code.lengths[length] = (next, place, 0);
            let mut symbol = 0_u16;
            while (symbol as usize) < SYMBOLS {
                if LENGTHS[symbol as usize] as usize == length {
                    code.codes[symbol as usize] = next;
                    code.sorted[place] = symbol;
                    code.lengths[length].2 += 1;
                    next += 1;
                    place += 1;
                }
                symbol += 1;
            }
            length += 1;
        }
        code
    }
}

/// Returns the length of a byte's code in bits.
pub(crate) fn bits(byte: u8) -> usize {
    usize::from(LENGTHS[usize::from(byte)])
}

/// Returns the decoded text, or `None` if the code is invalid.
pub(crate) fn decode(coded: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(coded.len() * 8 / 5);
    let (mut code, mut length) = (0_u32, 0);
    for byte in coded {
        for bit in (0..8).rev() {
            code = code << 1 | u32::from(byte >> bit & 1);
            length += 1;
            let (first, place, count) = *CODE.lengths.get(length)?;
            let Some(nth) = code.checked_sub(first).filter(|nth| *nth < count) else { continue };
            let symbol = CODE.sorted[place + usize::try_from(nth).ok()?];
            // A text that contains the end-of-string symbol, which is not a byte, is invalid.
            text.push(u8::try_from(symbol).ok()?);
            (code, length) = (0, 0);
        }
    }
    // The last byte must be padded with ones, which are the beginning of the end-of-string code.
    (length < 8 && code == (1 << length) - 1).then_some(text)
}

/// Returns the Huffman code of a text.
pub(crate) fn encode(text: &[u8]) -> Vec<u8> {
    let mut coded = Vec::with_capacity(text.len());
    // The bits of the incomplete byte, highest first, and their number.
    let (mut pending, mut length) = (0_u64, 0);
    for byte in text {
        length += bits(*byte);
        pending |= u64::from(CODE.codes[usize::from(*byte)]) << (64 - length);
        while length >= 8 {
            coded.push(pending.to_be_bytes()[0]);
            pending <<= 8;
            length -= 8;
        }
    }
    if length > 0 {
        coded.push(pending.to_be_bytes()[0] | 0xff >> length);
    }
    coded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huffman_code_is_complete_and_matches_the_rfc() {
        let used: u64 = LENGTHS.iter().map(|length| 1_u64 << (LONGEST - usize::from(*length))).sum();
        assert_eq!(used, 1 << LONGEST, "every sequence of bits is a code or the beginning of one");
        assert_eq!(CODE.codes[usize::from(b'0')], 0);
        assert_eq!(CODE.codes[usize::from(b'!')], 0x3f8);
        assert_eq!(CODE.codes[usize::from(b'\\')], 0x7_fff0);
        assert_eq!(CODE.codes[SYMBOLS - 1], 0x3fff_ffff);
    }

    #[test]
    fn texts_round_trip_and_example_of_rfc_matches() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)).as_deref(), Some(&all[..]));
        let example = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(encode(b"www.example.com"), example);
        assert_eq!(decode(&example).as_deref(), Some(&b"www.example.com"[..]));
    }

    #[test]
    fn invalid_padding_and_end_symbol_are_rejected() {
        assert_eq!(decode(&[0b0000_0111]).as_deref(), Some(&b"0"[..]));
        assert_eq!(decode(&[0b0000_0110]), None, "filled up with something else than ones");
        assert_eq!(decode(&[0b0000_0111, 0xff]), None, "filled up by a whole byte");
        assert_eq!(decode(&[0xff; 4]), None, "the sign of the end");
        assert_eq!(decode(&[]).as_deref(), Some(&b""[..]));
    }
}
