use proptest::prelude::*;

use super::*;

fn descriptor(identifiers: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (at, (code_set, association, bytes)) in identifiers.iter().enumerate() {
        let length = u16::try_from(bytes.len()).unwrap();
        let padded = bytes.len().next_multiple_of(4);
        let is_last = at + 1 == identifiers.len();
        let next = if is_last { 0 } else { u16::try_from(IDENTIFIER_HEAD + padded).unwrap() };
        body.extend(code_set.to_le_bytes());
        body.extend(3_u32.to_le_bytes());
        body.extend(length.to_le_bytes());
        body.extend(next.to_le_bytes());
        body.extend(association.to_le_bytes());
        body.extend(*bytes);
        body.extend(vec![0; padded - bytes.len()]);
    }
    let size = u32::try_from(HEAD + body.len()).unwrap();
    let count = u32::try_from(identifiers.len()).unwrap();
    [12_u32.to_le_bytes().to_vec(), size.to_le_bytes().to_vec(), count.to_le_bytes().to_vec(), body].concat()
}

#[test]
fn page_83_is_the_first_identifier_of_the_device() {
    assert_eq!(identifier(&descriptor(&[(1, 0, &[0xEB, 0x01, 0x7F])])), "eb017f");
    assert_eq!(identifier(&descriptor(&[(2, 0, b"vol0123 ")])), "vol0123 ");
    // The identifiers are of a port, of the device in UTF-8, and of the device in ASCII.
    assert_eq!(identifier(&descriptor(&[(1, 1, b"port"), (3, 0, b"utf8"), (2, 0, b"disk")])), "disk");
    assert_eq!(identifier(&descriptor(&[(1, 1, b"port")])), "");
    assert_eq!(identifier(&descriptor(&[])), "");
}

#[test]
fn malformed_descriptor_is_parsed_within_its_bounds() {
    let whole = descriptor(&[(1, 1, b"port"), (2, 0, b"disk")]);
    for length in 0..whole.len() {
        assert_eq!(identifier(&whole[..length]), "", "{length} bytes");
    }
    // A descriptor whose size field is smaller than the buffer.
    let mut small = whole.clone();
    small[4..8].copy_from_slice(&30_u32.to_le_bytes());
    assert_eq!(identifier(&small), "");
    // A descriptor whose offset of the next identifier is smaller than the header.
    let mut looping = whole.clone();
    looping[HEAD + 10..HEAD + 12].copy_from_slice(&1_u16.to_le_bytes());
    assert_eq!(identifier(&looping), "");
    // A descriptor whose count of identifiers is too large.
    let mut many = descriptor(&[(1, 1, b"port")]);
    many[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(identifier(&many), "");
}

proptest! {
    #[test]
    fn any_descriptor_is_parsed_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(identifier(&bytes).len() <= 3 * bytes.len());
    }
}
