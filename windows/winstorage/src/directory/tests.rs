use proptest::prelude::*;

use super::*;

fn listing(names: &[&str]) -> Vec<u8> {
    let mut all = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let units: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let size = (NAME + units.len()).next_multiple_of(8);
        let next = if at + 1 == names.len() { 0 } else { size };
        let mut entry = vec![0; size];
        entry[..4].copy_from_slice(&u32::try_from(next).unwrap().to_le_bytes());
        entry[NAME_LENGTH..NAME_LENGTH + 4].copy_from_slice(&u32::try_from(units.len()).unwrap().to_le_bytes());
        entry[NAME..NAME + units.len()].copy_from_slice(&units);
        all.extend(entry);
    }
    all
}

#[test]
fn directory_listing_returns_each_name() {
    assert_eq!(names(&listing(&[".", "..", "mount", "ä😀"])).unwrap(), ["mount", "ä😀"]);
    assert_eq!(names(&[]), None);
    let mut looping = listing(&["a", "b"]);
    looping[0] = 4;
    assert_eq!(names(&looping), None);
}

proptest! {
    #[test]
    fn any_directory_listing_is_parsed_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(names(&bytes).is_none_or(|all| all.len() * NAME <= bytes.len()));
    }
}
