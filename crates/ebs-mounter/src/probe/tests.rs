use std::os::unix::fs::FileExt;

use proptest::prelude::*;

use super::read::ReadAt;
use super::*;

pub(super) struct Zeros;

impl ReadAt for Zeros {
    fn read_exact_at(&self, buffer: &mut [u8], _offset: u64) -> io::Result<()> {
        buffer.fill(0);
        Ok(())
    }
}

/// Returns the first 64 KiB of a new file system, and of one whose mkfs was interrupted.
pub(crate) fn whole_and_begun(fs_type: FsType) -> (Vec<u8>, Vec<u8>) {
    let (image, at) = match fs_type {
        FsType::Xfs => (made_by("mkfs.xfs", &["-q"], 512 << 20), 126),
        ext => (made_by("mke2fs", &["-q", "-F", "-t", ext.as_str()], 64 << 20), 1024 + 0x78),
    };
    let mut whole = vec![0; 64 * 1024];
    FileExt::read_exact_at(&image, &mut whole, 0).unwrap();
    let mut begun = whole.clone();
    begun[at] = 1;
    (whole, begun)
}

pub(crate) fn superblock_of(bytes: &[u8], size: u64) -> Option<Superblock> {
    let device = Written(vec![(0, bytes.to_vec())]);
    let area = Area::new(&device, size);
    let _ = inspect(&area, Depth::Again);
    read_superblock(&area).unwrap()
}

/// Zeros with some bytes written over them.
pub(super) struct Written(pub(super) Vec<(u64, Vec<u8>)>);

impl ReadAt for Written {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        buffer.fill(0);
        self.0.iter().for_each(|(at, bytes)| lay_over(buffer, offset, *at, bytes));
        Ok(())
    }
}

/// Copies bytes that belong at offset `at` into a buffer that was read from `offset`, as far as they overlap.
fn lay_over(buffer: &mut [u8], offset: u64, at: u64, bytes: &[u8]) {
    let index = |place: u64, from: u64| usize::try_from(place.saturating_sub(from)).unwrap_or(usize::MAX);
    let (into, from) = (index(at, offset), index(offset, at));
    if into < buffer.len() && from < bytes.len() {
        let length = (buffer.len() - into).min(bytes.len() - from);
        buffer[into..into + length].copy_from_slice(&bytes[from..from + length]);
    }
}

pub(super) struct Overlaid<'a> {
    pub(super) below: &'a std::fs::File,
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
}

impl ReadAt for Overlaid<'_> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self.below, buffer, offset)?;
        lay_over(buffer, offset, self.at, &self.bytes);
        Ok(())
    }
}

struct BadPage(u64);

impl ReadAt for BadPage {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset + u64::try_from(buffer.len()).unwrap();
        if offset < self.0 + 4096 && end > self.0 {
            return Err(io::Error::from_raw_os_error(5));
        }
        buffer.fill(0);
        Ok(())
    }
}

const SIZE: u64 = 1 << 30;
const PROOF: Depth = Depth::Proof { seed: 7 };

fn contents_of(bytes: &dyn ReadAt) -> Contents {
    inspect(&Area::new(bytes, SIZE), PROOF).unwrap()
}

/// Returns the probe result for a new ext4, with a valid or a damaged superblock.
pub(super) fn contents_of_new_ext4(damaged: bool) -> Contents {
    let image = made_by("mke2fs", &["-q", "-F", "-t", "ext4"], 64 << 20);
    if damaged {
        image.write_all_at(b"x", 1024 + 0x78).unwrap();
    }
    inspect(&Area::new(&image, 64 << 20), PROOF).unwrap()
}

#[test]
fn contents_are_displayed_with_kind_and_offset() {
    let said = |contents: Contents| contents.to_string();
    assert_eq!(said(contents_of(&Zeros)), "nothing");
    assert_eq!(said(Contents::Data { offset: 7 }), "data of unknown kind (first seen at byte 7)");
    let luks = Contents::Foreign { what: "LUKS encryption".to_owned(), offset: 3 };
    assert_eq!(said(luks), "LUKS encryption (at byte 3)");
    assert_eq!(said(contents_of_new_ext4(false)), "ext4");
    assert_eq!(said(contents_of_new_ext4(true)), "an incomplete or damaged ext4");
}

#[test]
fn device_without_a_size_is_an_error() {
    assert!(inspect(&Area::new(&Zeros, 0), PROOF).is_err());
}

#[test]
fn small_device_is_read_completely() {
    for size in [512, 4096, 1 << 20, 2 * blank::END] {
        assert!(matches!(inspect(&Area::new(&Zeros, size), PROOF).unwrap(), Contents::Blank(_)));
        for offset in [0, size / 2, size / 3, size - 1] {
            let one = Written(vec![(offset, vec![1])]);
            assert_eq!(inspect(&Area::new(&one, size), PROOF).unwrap(), Contents::Data { offset }, "{size}");
        }
    }
}

#[test]
fn data_in_the_middle_of_a_device_is_found() {
    assert!(matches!(contents_of(&Zeros), Contents::Blank(proof) if proof.device_bytes() == SIZE));
    // The bounds of one stretch in which a page is sampled.
    let (start, stretch) = (700 << 20, SIZE / blank::STRETCHES);
    let contents = contents_of(&Written(vec![(start, vec![0x5a; 1 << 20])]));
    assert!(matches!(contents, Contents::Data { offset } if (start..start + stretch).contains(&offset)), "{contents}");
}

#[test]
fn check_before_mkfs_reads_only_signatures_and_disk_ends() {
    let again = |offset: u64, bytes: &[u8]| {
        inspect(&Area::new(&Written(vec![(offset, bytes.to_vec())]), SIZE), Depth::Again).unwrap()
    };
    for offset in [0, (1 << 20) - 1, SIZE - (1 << 20), SIZE - 1] {
        assert_eq!(again(offset, &[1]), Contents::Data { offset });
    }
    for offset in [1 << 20, SIZE - (1 << 20) - 1] {
        assert!(matches!(again(offset, &[1]), Contents::Blank(proof) if proof.device_bytes() == SIZE), "{offset}");
    }
    assert!(matches!(again((64 << 20) + 64, b"_BHRfS_M"), Contents::Foreign { .. }));
}

#[test]
fn each_zfs_label_is_found_by_any_of_its_uberblocks() {
    let end = SIZE / (256 * 1024) * (256 * 1024);
    for label in [0, 256 * 1024, end - 512 * 1024, end - 256 * 1024] {
        for (block, sign) in [(0, b"\x0c\xb1\xba\0\0\0\0\0"), (127, b"\0\0\0\0\0\xba\xb1\x0c")] {
            let offset = label + 128 * 1024 + block * 1024;
            let contents = contents_of(&Written(vec![(offset, sign.to_vec())]));
            assert_eq!(contents, Contents::Foreign { what: "a ZFS pool member".to_owned(), offset });
        }
    }
}

#[test]
fn dos_partition_table_requires_a_boot_signature_and_an_entry() {
    let mark = (510, vec![0x55, 0xaa]);
    assert_eq!(contents_of(&Written(vec![mark.clone()])), Contents::Data { offset: 510 });
    for entry in 0..4 {
        let contents = contents_of(&Written(vec![mark.clone(), (446 + 16 * entry + 4, vec![0x83])]));
        assert_eq!(contents, Contents::Foreign { what: "a DOS partition table".to_owned(), offset: 446 }, "{entry}");
    }
}

#[test]
fn read_error_at_any_offset_is_an_error_and_never_blank() {
    for bad in [0, 4096, 512 * 1024, SIZE - 4096, 32_768 * 4096, 65_536 * 4096, 64 << 20] {
        let outcome = inspect(&Area::new(&BadPage(bad), SIZE), PROOF);
        let error = outcome.expect_err(&format!("an error at byte {bad}"));
        assert!(error.to_string().contains("Input/output error"), "{error}");
    }
}

#[test]
fn device_shorter_than_its_size_is_an_error() {
    let file = tempfile::tempfile().unwrap();
    for length in [0, 1, 4096, SIZE - 4096, SIZE - 1] {
        file.set_len(length).unwrap();
        let error = inspect(&Area::new(&file, SIZE), PROOF).expect_err("a short read");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{length}: {error}");
    }
}

#[test]
fn ext_and_xfs_superblocks_together_are_foreign() {
    let mut ext = vec![0; 1024];
    ext[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
    let contents = contents_of(&Written(vec![(1024, ext), (0, b"XFSB".to_vec())]));
    assert!(
        matches!(contents, Contents::Foreign { ref what, .. } if what == "superblocks of both ext and xfs"),
        "{contents}"
    );
}

#[test]
fn ext_types_are_distinguished_and_checksum_is_checked() {
    for (name, fs_type) in [("ext2", FsType::Ext2), ("ext3", FsType::Ext3), ("ext4", FsType::Ext4)] {
        let image = made_by("mke2fs", &["-q", "-F", "-t", name], 64 << 20);
        let contents = inspect(&Area::new(&image, 64 << 20), PROOF).unwrap();
        let Contents::Filesystem(superblock) = contents else { panic!("{name}: {contents}") };
        assert!(superblock.is_complete());
        assert_eq!((superblock.fs_type(), superblock.bytes()), (fs_type, 64 << 20));
        assert_eq!(superblock.reach(64 << 20).bytes, 64 << 20);
        // Changes a byte of the label, which the checksum of ext4 covers. ext2 and ext3 have no checksum.
        image.write_all_at(b"x", 1024 + 0x78).unwrap();
        let contents = inspect(&Area::new(&image, 64 << 20), PROOF).unwrap();
        let Contents::Filesystem(superblock) = contents else { panic!("{name}: {contents}") };
        assert_eq!(superblock.is_complete(), fs_type != FsType::Ext4);
    }
}

/// Returns a sparse file with a file system that a mkfs program made.
pub(crate) fn made_by(program: &str, args: &[&str], size: u64) -> std::fs::File {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(size).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a fixture")]
    let output = std::process::Command::new(format!("/usr/sbin/{program}"))
        .args(args)
        .arg(file.path())
        .output()
        .expect("this test needs e2fsprogs and xfsprogs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::File::options().read(true).write(true).open(file.path()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn one_byte_anywhere_at_the_ends_of_a_disk_is_found(back in any::<bool>(), at in 0..blank::END, byte in 1_u8..) {
        let offset = if back { SIZE - 1 - at } else { at };
        let contents = contents_of(&Written(vec![(offset, vec![byte])]));
        prop_assert_eq!(contents, Contents::Data { offset });
    }
}
