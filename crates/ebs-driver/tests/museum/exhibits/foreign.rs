//! File systems that this driver does not mount, and data outside of any file system.

use crate::exhibit::Place::At;
use crate::exhibit::Step::{Run, Write};
use crate::exhibit::{Exhibit, GIB, KIB, MIB};
use crate::headers::{vmfs, written};

const SIZE: u64 = 600 * MIB;

pub(crate) fn made_by_tools() -> Vec<Exhibit> {
    vec![
        Exhibit::new("btrfs", GIB, vec![Run("mkfs.btrfs", &["-q", "-K"])], &["btrfs", "at byte 65600"]),
        Exhibit::new("f2fs", GIB, vec![Run("mkfs.f2fs", &["-q", "-t", "0"])], &["F2FS", "at byte 1024"]),
        Exhibit::new("NTFS", GIB, vec![Run("mkfs.ntfs", &["-q", "-Q", "-F"])], &["NTFS", "at byte 3"]),
        Exhibit::new("exFAT", GIB, vec![Run("mkfs.exfat", &[])], &["exFAT", "at byte 3"]),
        Exhibit::new("FAT16", SIZE, vec![Run("mkfs.fat", &["-I", "-F", "16"])], &["FAT"]),
        Exhibit::new("FAT32", SIZE, vec![Run("mkfs.fat", &["-I", "-F", "32"])], &["FAT"]),
        Exhibit::new("nilfs2", GIB, vec![Run("mkfs.nilfs2", &["-q"])], &["nilfs2"]),
        Exhibit::new("minix", 60 * MIB, vec![Run("mkfs.minix", &[])], &["minix"]),
        Exhibit::new("bfs", 60 * MIB, vec![Run("mkfs.bfs", &[])], &["bfs"]),
    ]
}

pub(crate) fn by_header() -> Vec<Exhibit> {
    let at_start =
        |name, pieces: &[(usize, &[u8])], told: &[&str]| Exhibit::new(name, SIZE, vec![written(At(0), pieces)], told);
    vec![
        Exhibit::new("VMFS", SIZE, vmfs(), &["VMFS", "at byte 1048576"]),
        at_start("ReFS", &[(0, b"\0\0\0ReFS\0")], &["ReFS", "at byte 3"]),
        at_start(
            "bcachefs",
            &[(4120, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef")],
            &["at byte 4120"],
        ),
        at_start("squashfs", &[(0, b"hsqs"), (28, b"\x04\0\0\0")], &["squashfs", "at byte 0"]),
        at_start("ISO 9660", &[(32_768, b"\x01CD001\x01\0")], &["ISO 9660", "at byte 32769"]),
        at_start(
            "UDF",
            &[(32_768, b"\0BEA01\x01"), (34_816, b"\0NSR02\x01"), (36_864, b"\0TEA01\x01")],
            &["at byte 32769"],
        ),
        at_start("erofs", &[(1024, b"\xe2\xe1\xf5\xe0"), (1036, b"\x0c")], &["EROFS", "at byte 1024"]),
        at_start("APFS", &[(32, b"NXSB\0\x10\0\0")], &["at byte 32"]),
        at_start("HFS+", &[(1024, b"H+\0\x04"), (1064, b"\0\0\x10\0")], &["hfsplus", "at byte 1024"]),
        at_start("UFS", &[(8192 + 1372, b"\x54\x19\x01\0")], &["ufs", "at byte 9564"]),
        at_start("UFS2", &[(65_536 + 1372, b"\x19\x01\x54\x19")], &["ufs", "at byte 66908"]),
        at_start("cramfs", &[(0, b"\x45\x3d\xcd\x28"), (16, b"Compressed ROMFS")], &["cramfs", "at byte 0"]),
        at_start("JFS", &[(32_768, b"JFS1\x01\0\0\0")], &["JFS", "at byte 32768"]),
        at_start("ReiserFS", &[(65_588, b"ReIsEr2Fs")], &["ReiserFS", "at byte 65588"]),
        at_start("OCFS2", &[(8192, b"OCFSV2")], &["ocfs2", "at byte 8192"]),
        at_start("GFS2", &[(65_536, b"\x01\x16\x19\x70\0\0\0\x01")], &["at byte 65536"]),
    ]
}

pub(crate) fn plain() -> Vec<Exhibit> {
    let page = vec![0xd1; 16 * 1024];
    let archive = written(At(0), &[(0, b"backup/data.sql"), (257, b"ustar\x0000")]);
    vec![
        Exhibit::seen_at("a tar archive", SIZE, vec![archive], 0),
        Exhibit::seen_at("a compressed image", SIZE, vec![Write(At(0), b"\x1f\x8b\x08\0\0\0\0\0".to_vec())], 0),
        Exhibit::seen_at("pages of a database from 64 KiB on", SIZE, vec![Write(At(64 * KIB), page.clone())], 64 * KIB),
        Exhibit::seen_at("pages of a database from 5 MiB on", SIZE, vec![Write(At(5 * MIB), page)], 5 * MIB),
        Exhibit::seen_at("ones all over the first MiB", SIZE, vec![Write(At(0), vec![0xff; 1 << 20])], 0),
    ]
}
