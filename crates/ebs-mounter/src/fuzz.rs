//! Tests the crate with random external input. It must never panic, and mkfs and mount(2) must receive only words that
//! the typed builders write. The number of cases here is small; `make fuzz CASES=100000` runs more.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use ebs_ec2::VolumeId;
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::config::MounterConfig;
use crate::device::{Places, disks_in_use};
use crate::format::FormatSpec;
use crate::format_options::{FormatOptions, SizeWord};
use crate::fs_type::FsType;
use crate::mountinfo::{MountEntry, MountTable};
use crate::options::{Attribute, MountOptions};
use crate::os::{DeviceNumber, serial_in};
use crate::path::NodePath;
use crate::probe::tests::{superblock_of, whole_and_begun};

fn cases(usual: u32) -> Config {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    Config { cases: asked.unwrap_or(usual), failure_persistence: None, ..Config::default() }
}

const VOLUME_AT: &str = "/var/lib/kubelet/plugins/kubernetes.io/csi/vol/globalmount";
const TABLE: &str = "\
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw
35 22 259:3 / /var/lib/kubelet/plugins/kubernetes.io/csi/vol/globalmount rw,relatime - xfs /dev/nvme1n1 rw
41 22 259:3 / /var/lib/kubelet/pods/a/mount ro,nosuid shared:7 master:2 - xfs /dev/nvme1n1 rw
77 22 0:5 /nvme2n1 /var/lib/kubelet/pods/b/dev/raw rw - devtmpfs devtmpfs rw
";

fn strange_line() -> impl Strategy<Value = Vec<u8>> {
    let like = prop::sample::select(TABLE.lines().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>());
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..12);
    let changed = (like, changes).prop_map(|(mut line, changes)| {
        for (at, byte, how) in changes {
            let at = at.index(line.len().max(1));
            match how {
                0 => line.insert(at.min(line.len()), byte),
                1 if at < line.len() => drop(line.remove(at)),
                _ if at < line.len() => line[at] = byte,
                _ => {}
            }
        }
        line
    });
    let any_bytes = prop::collection::vec(any::<u8>(), 0..200);
    prop_oneof![4 => changed, 1 => any_bytes].prop_map(|mut line| {
        line.retain(|byte| *byte != b'\n');
        line
    })
}

/// Returns the first 64 KiB of a file system of each kind, made once. The driver reads only these bytes.
fn images() -> &'static [(FsType, Vec<u8>)] {
    static IMAGES: std::sync::OnceLock<Vec<(FsType, Vec<u8>)>> = std::sync::OnceLock::new();
    let all = [FsType::Ext2, FsType::Ext3, FsType::Ext4, FsType::Xfs];
    IMAGES.get_or_init(|| all.map(|fs_type| (fs_type, whole_and_begun(fs_type).0)).into())
}

const KNOWN: &[(&str, &str)] = &[("-i", "attr=2"), ("-n", "parent=0"), ("-l", "lazy-count=1")];

/// Changed bytes of the two superblocks, at the start and at 1 KiB.
fn changes() -> impl Strategy<Value = Vec<(usize, u8)>> {
    let place = prop_oneof![0..512_usize, 1024..2048_usize];
    prop::collection::vec((place, 1_u8..), 1..40)
}

fn word() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        Just(None),
        "[0-9]{1,8}[kKmM]?".prop_map(Some),
        "[a-zA-Z0-9]{1,12}".prop_map(Some),
        any::<String>().prop_map(Some)
    ]
}

fn size_word(text: &Option<String>) -> Option<SizeWord> {
    text.as_deref().and_then(|text| SizeWord::parse(text).ok().flatten())
}

/// True for a valid argument of mkfs: one of our words, or a size of letters and digits.
fn is_typed(argument: &str) -> bool {
    let ours = argument.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b',' | b'='));
    let flags = ["-q", "-t", "-b", "-I", "-i", "-N", "-C", "-O", "-m0", "-m", "-F", "-f", "-d", "-l", "-n", "-K"];
    ours && (!argument.starts_with('-') || flags.contains(&argument))
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn invalid_mountinfo_line_affects_no_other_path(
        line in strange_line(),
        before in 0..5_usize,
    ) {
        let mut lines: Vec<Vec<u8>> = TABLE.lines().map(|line| line.as_bytes().to_vec()).collect();
        lines.insert(before.min(lines.len()), line.clone());
        let with = MountTable::parse(&lines.join(&b'\n'));
        let without = MountTable::parse(TABLE.as_bytes());
        let strange = MountTable::parse(&line);
        // A valid line may describe a mount over a parent directory, or have the id of another mount. Only the kernel
        // can rule that out.
        let ids = [0, 1, 22, 35, 41, 77];
        let is_above = |entry: &MountEntry| without.entries().iter().any(|other| other.target.starts_with(&entry.target));
        let is_strange = |entry: &MountEntry| entry.id == 0 || (!ids.contains(&entry.id) && !is_above(entry));
        if !strange.entries().iter().all(is_strange) {
            return Ok(());
        }
        let its: BTreeSet<&Path> = strange.entries().iter().map(|entry| entry.target.as_path()).collect();
        for entry in without.entries().iter().filter(|entry| !its.contains(entry.target.as_path())) {
            prop_assert_eq!(with.topmost(&entry.target), Some(entry));
            prop_assert_eq!(with.depth(&entry.target), 1);
        }
        prop_assert!(with.entries().len() >= without.entries().len());
        drop(disks_in_use(&MounterConfig::new("/nowhere"), &with, &Places::new(Some(Path::new("/var")), [])));
        let number = DeviceNumber { major: 259, minor: 3 };
        prop_assert!(with.of_device(number).count() >= 2);
        prop_assert_eq!(without.topmost(Path::new(VOLUME_AT)).map(|entry| entry.id), Some(35));
    }

    #[test]
    fn nvme_page_identifies_a_volume_only_by_serial_number(
        serial in prop::collection::vec(any::<u8>(), 20),
        other in any::<u8>(),
    ) {
        let mut page = [other; 4096];
        page[4..24].copy_from_slice(&serial);
        let read = serial_in(&page);
        if let Ok(volume) = VolumeId::from_serial(&read) {
            let text = String::from_utf8(serial).expect("an id is text");
            let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
            prop_assert!(text == volume.serial() || text == volume.as_str());
        }
        let mut ours = [other; 4096];
        ours[4..24].copy_from_slice(b"vol0123456789abcdef0");
        let volume = VolumeId::from_serial(&serial_in(&ours)).unwrap();
        prop_assert_eq!(volume.as_str(), "vol-0123456789abcdef0");
    }

    #[test]
    fn format_options_become_only_known_mkfs_arguments(
        words in prop::collection::vec(word(), 5),
        flags in prop::collection::vec(any::<bool>(), 4),
        fs_type in prop::sample::select(vec![FsType::Ext2, FsType::Ext3, FsType::Ext4, FsType::Xfs]),
        release in (3..8_u32, 0..30_u32),
    ) {
        let options = FormatOptions {
            block_size: size_word(&words[0]),
            inode_size: size_word(&words[1]),
            bytes_per_inode: size_word(&words[2]),
            number_of_inodes: size_word(&words[3]),
            cluster_size: size_word(&words[4]),
            bigalloc: flags[0],
            encryption: flags[1],
            legacy_xfs: flags[2],
        };
        let call = FormatSpec { fs_type, options }.call(Path::new("/dev/nvme1n1"), release, KNOWN, flags[3]);
        let arguments: Vec<&str> = call.args.iter().map(|argument| argument.to_str().unwrap()).collect();
        let (device, arguments) = arguments.split_last().expect("a device");
        prop_assert_eq!(*device, "/dev/nvme1n1");
        for argument in arguments {
            prop_assert!(is_typed(argument), "{:?}", argument);
        }
        let forces = arguments.iter().any(|argument| *argument == "-F" || *argument == "-f");
        prop_assert_eq!(forces, flags[3]);
        prop_assert_eq!(arguments.iter().filter(|argument| **argument == "-O").count(), usize::from(fs_type.is_ext()));
    }

    #[test]
    fn path_is_rejected_unless_absolute_without_dot_dot(text in r"[/a.\x00 é~]{0,24}|\PC{0,60}") {
        if let Ok(path) = NodePath::parse(&text) {
            let path = path.as_path();
            prop_assert!(path.is_absolute() && path.file_name().is_some());
            prop_assert!(path.components().skip(1).all(|part| matches!(part, Component::Normal(_))));
            prop_assert!(path.to_str().is_some_and(|text| text.len() <= 4095 && !text.contains('\0')));
            let again = NodePath::parse(path.to_str().unwrap()).unwrap();
            prop_assert_eq!(again.as_path(), path);
        }
    }

    #[test]
    fn parsed_mount_options_contain_only_words_of_the_flags(
        flags in prop::collection::vec(r#"[a-z=,"\\:]{0,20}|ro|rw|bind|remount,ro|context="a,b"|\PC{0,20}"#, 0..6),
    ) {
        let Ok(options) = MountOptions::parse(flags.iter().map(String::as_str)) else { return Ok(()) };
        let written = flags.join(",");
        for word in options.words() {
            prop_assert!(written.contains(word.as_str()), "{:?}", word);
            prop_assert!(!["bind", "rbind", "move", "remount", "shared", "private", "loop", ""].contains(&word.as_str()));
        }
        prop_assert!(!options.data().contains(['\0', '\n']));
        let access: Vec<_> = options
            .attributes()
            .iter()
            .filter(|a| matches!(a, Attribute::RelAtime | Attribute::StrictAtime | Attribute::NoAtime))
            .collect();
        prop_assert!(access.len() <= 1 || flags.iter().any(|flag| flag.contains("atime")));
        prop_assert!(options.clone().read_only().is_read_only());
    }

    #[test]
    fn changed_superblock_is_parsed_as_incomplete_without_a_panic(
        which in 0..4_usize,
        changes in changes(),
        size in prop_oneof![Just(320_u64 << 20), 0..70_000_u64, Just(1_u64 << 46)],
    ) {
        let (fs_type, whole) = &images()[which];
        let mut bytes = whole.clone();
        for (at, change) in &changes {
            bytes[*at] ^= change;
        }
        let found = superblock_of(&bytes, size);
        let own = if *fs_type == FsType::Xfs { 0..512 } else { 1024..2048 };
        let is_changed = own.clone().any(|at| bytes[at] != whole[at]);
        if let Some(found) = found {
            // The values that callers compute from the superblock.
            let _ = (found.bytes(), found.reach(size), found.fs_type(), found.is_complete());
            let has_checksum = matches!(fs_type, FsType::Ext4 | FsType::Xfs);
            let still_says_so = *fs_type == FsType::Xfs || bytes[1024 + 0x65] == whole[1024 + 0x65];
            let same_kind = found.fs_type().is_ext() == fs_type.is_ext() && bytes[100..102] == whole[100..102];
            if has_checksum && is_changed && still_says_so && same_kind {
                prop_assert!(!found.is_complete(), "{:?}", changes);
            }
        }
    }
}
