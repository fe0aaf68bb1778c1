use proptest::prelude::*;

use super::*;

/// Builds a buffer as Windows writes it: the substitute name, then the other name, each with a final 0 for mount
/// points.
fn mount_point(substitute: &str) -> Vec<u8> {
    let units: Vec<u16> = substitute.encode_utf16().collect();
    let length = u16::try_from(units.len() * 2).unwrap();
    let mut buffer = TAG_MOUNT_POINT.to_le_bytes().to_vec();
    for short in [8 + length + 4, 0, 0, length, length + 2, 0] {
        buffer.extend(short.to_le_bytes());
    }
    buffer.extend(units.into_iter().chain([0, 0]).flat_map(u16::to_le_bytes));
    buffer
}

#[test]
fn reparse_tag_and_target_distinguish_volume_from_junction() {
    let id = r"\\?\Volume{0123abcd-0000-4000-8000-00000000beef}\";
    let volume = parse(&mount_point(r"\??\Volume{0123abcd-0000-4000-8000-00000000beef}\"), true);
    assert_eq!(volume, Some(EntryKind::MountPoint(VolumeGuid::parse(id).unwrap())));
    let junction = |target: &str| Some(EntryKind::Junction { target: target.to_owned() });
    assert_eq!(parse(&mount_point(r"\??\C:\var"), true), junction(r"C:\var"));
    let below = r"Volume{0123abcd-0000-4000-8000-00000000beef}\x";
    assert_eq!(parse(&mount_point(&format!(r"\??\{below}")), true), junction(below));
    // Use a tag that differs in one bit.
    let mut other = mount_point(r"\??\C:\var");
    other[0] = 0x0C | 0x03;
    assert_eq!(parse(&other, true), Some(EntryKind::OtherReparse(0xA000_000F)));
}

#[test]
fn encoded_symbolic_link_is_parsed_to_its_target() {
    for (target, read) in [
        (r"C:\var\lib\kubelet\x", r"C:\var\lib\kubelet\x"),
        (r"\\?\UNC\host\share\", r"\\host\share\"),
        (r"\\?\C:\x", r"C:\x"),
        (r"\\host\share", r"\\host\share"),
        (r"..\x", r"..\x"),
    ] {
        let buffer = symbolic_link(target).unwrap();
        assert_eq!(usize::from(u16::from_le_bytes([buffer[4], buffer[5]])), buffer.len() - HEAD, "{target}");
        let link = EntryKind::SymbolicLink { target: read.to_owned(), is_directory: true };
        assert_eq!(parse(&buffer, true), Some(link));
        assert_eq!(buffer[16], u8::from(target.starts_with('.')), "{target} is relative or not");
    }
    assert_eq!(symbolic_link(&"x".repeat(40_000)), None);
}

proptest! {
    #[test]
    fn any_reparse_data_is_parsed_without_panic(tag in 0_usize..3, rest in prop::collection::vec(any::<u8>(), 0..80)) {
        let tag = [TAG_MOUNT_POINT, TAG_SYMLINK, 0x8000_0013][tag];
        for buffer in [[tag.to_le_bytes().to_vec(), rest.clone()].concat(), rest] {
            if let Some(EntryKind::MountPoint(volume)) = parse(&buffer, true) {
                prop_assert!(VolumeGuid::parse(&volume.to_string()).is_ok());
            }
        }
    }
}
