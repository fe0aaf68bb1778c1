//! Computes the replacement for an authority that the server would reject.

use http::uri::Authority;

use crate::huffman;

/// A byte that is valid in names. Its Huffman code is at most 8 bits longer than that of any other byte in a name.
const LONG: u8 = b'~';

/// Returns a valid name whose text and encoding are as long as the old ones. Returns `None` if the server accepts the
/// text, if the code is invalid, or if no name has a code of this length.
pub(crate) fn replacement(encoded: &[u8], coded: bool) -> Option<Vec<u8>> {
    let mut name = if coded { huffman::decode(encoded)? } else { encoded.to_vec() };
    if name.is_empty() || Authority::try_from(&name[..]).is_ok() {
        return None;
    }
    for byte in &mut name {
        if !byte.is_ascii_alphanumeric() && *byte != b'.' {
            *byte = b'-';
        }
    }
    if !coded {
        return Some(name);
    }
    // No byte that becomes `-` has a shorter code than `-`, so the new code is not longer than the old one.
    let mut spare = (encoded.len() * 8).checked_sub(name.iter().map(|byte| huffman::bits(*byte)).sum())?;
    for byte in &mut name {
        if spare < 8 {
            break;
        }
        spare -= huffman::bits(LONG) - huffman::bits(*byte);
        *byte = LONG;
    }
    (spare < 8).then(|| huffman::encode(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_text(text: &str) -> Option<String> {
        replacement(text.as_bytes(), false).map(|name| String::from_utf8(name).expect("a name"))
    }

    fn of_code(text: &str) -> Option<String> {
        let coded = huffman::encode(text.as_bytes());
        let name = replacement(&coded, true)?;
        assert_eq!(name.len(), coded.len(), "{text}");
        Some(String::from_utf8(huffman::decode(&name).expect("a code")).expect("a name"))
    }

    #[test]
    fn invalid_authority_keeps_letters_digits_and_dots() {
        // Each row is tested as plain text and Huffman-coded. The code must keep its length.
        let rows = [
            ("%2Ftmp%2Fcsi.sock", Some("-2Ftmp-2Fcsi.sock"), Some("-2Ftmp-2Fcsi.sock")),
            ("/csi/csi.sock", Some("-csi-csi.sock"), Some("-csi-csi.sock")),
            ("unix:///csi/csi.sock", Some("unix----csi-csi.sock"), Some("~nix----csi-csi.sock")),
            ("unix:%2F%2F%2Fcsi", Some("unix--2F-2F-2Fcsi"), Some("unix--2F-2F-2Fcsi")),
            ("C:%5Ccsi", Some("C--5Ccsi"), Some("C--5Ccsi")),
            ("two words", Some("two-words"), Some("two-words")),
            ("a:1:2", Some("a-1-2"), Some("a-1-2")),
            ("[::1", Some("---1"), Some("~--1")),
            // The Huffman code of this text is longer than that of any name with as many bytes.
            ("ü", Some("--"), None),
            ("localhost", None, None),
            ("127.0.0.1:10000", None, None),
            ("[::1]:80", None, None),
            ("user%40x@host", None, None),
        ];
        for (text, plain, coded) in rows {
            assert_eq!(of_text(text).as_deref(), plain, "{text}");
            assert_eq!(of_code(text).as_deref(), coded, "{text}, coded");
        }
    }

    #[test]
    fn authority_without_replacement_of_same_length_is_kept() {
        assert_eq!(of_text(""), None);
        assert_eq!(of_code(""), None);
        // Each of these bytes has a code of 19 bits. The longest code of a byte in a name has 13.
        assert_eq!(of_code(r"\\\"), None);
        assert_eq!(replacement(&[0xff; 4], true), None, "no code at all");
    }
}
