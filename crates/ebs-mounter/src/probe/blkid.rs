//! Asks `blkid -p` for a second opinion on the contents of a device. It recognises a hundred more signatures.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use super::Contents;
use crate::fs_type::FsType;
use crate::tools::{Call, Program, ToolError, Tools};

const BOUND: Duration = Duration::from_secs(60);
/// blkid's exit code if blkid recognises nothing or could not read the device. In the second case, it prints an error.
const NOTHING: i32 = 2;
const AMBIVALENT: i32 = 8;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Opinion {
    /// Type of a file system, RAID member, encryption …
    kind: Option<String>,
    table: Option<String>,
}

impl Opinion {
    fn words(&self) -> String {
        match (&self.kind, &self.table) {
            (None, None) => "nothing".to_owned(),
            (Some(kind), None) => kind.clone(),
            (None, Some(table)) => format!("a {table} partition table"),
            (Some(kind), Some(table)) => format!("{kind} together with a {table} partition table"),
        }
    }
}

pub(super) fn call(device: &Path) -> Call {
    let args = ["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", "--"].map(OsStr::new);
    Call::new(Program::Blkid, args.into_iter().chain([device.as_os_str()]))
}

pub(super) async fn ask(tools: &Tools, device: &Path) -> Result<Opinion, ToolError> {
    let ended = tools.read(call(device), BOUND).await?;
    opinion(ended.code(), &ended.output).ok_or_else(|| ended.into_error())
}

/// Interprets exit code and output. Returns `None` if they express no opinion.
fn opinion(code: Option<i32>, output: &str) -> Option<Opinion> {
    match code? {
        NOTHING if output.is_empty() => Some(Opinion::default()),
        AMBIVALENT => Some(Opinion { kind: Some("signatures that contradict each other".to_owned()), table: None }),
        0 => parse_export(output),
        _ => None,
    }
}

/// Parses `KEY=VALUE` lines. Returns `None` if there is any other line.
fn parse_export(output: &str) -> Option<Opinion> {
    let mut opinion = Opinion::default();
    for line in output.lines().filter(|line| !line.is_empty()) {
        let (key, value) = line.split_once('=')?;
        let value = Some(value.to_owned()).filter(|value| !value.is_empty());
        match key {
            "TYPE" => opinion.kind = value,
            "PTTYPE" => opinion.table = value,
            _ => {}
        }
    }
    Some(opinion)
}

/// Combines both opinions. If they disagree, `Err` describes the two.
pub(super) fn reconcile(own: Contents, second: &Opinion) -> Result<Contents, (String, String)> {
    let nothing = *second == Opinion::default();
    let as_ours = |fs: FsType| {
        second.table.is_none()
            && second.kind.as_deref().is_some_and(|kind| FsType::parse(kind).is_ok_and(|kind| fs.accepts(kind)))
    };
    let agrees = match &own {
        Contents::Blank(_) => nothing,
        Contents::Filesystem(superblock) => as_ours(superblock.fs_type()) || (nothing && !superblock.is_complete()),
        // The driver rejects such a disk in any case, and blkid may have a name for the data.
        Contents::Data { offset } if !nothing => {
            return Ok(Contents::Foreign { what: second.words(), offset: *offset });
        }
        Contents::Data { .. } | Contents::Foreign { .. } => true,
    };
    if agrees { Ok(own) } else { Err((own.to_string(), second.words())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blkid_probes_the_device_and_does_not_use_its_cache() {
        insta::assert_debug_snapshot!(call(Path::new("/dev/nvme1n1")).args, @r#"
        [
            "-p",
            "-s",
            "TYPE",
            "-s",
            "PTTYPE",
            "-o",
            "export",
            "--",
            "/dev/nvme1n1",
        ]
        "#);
    }

    #[test]
    fn blkid_export_lines_are_split_at_the_first_equals_sign() {
        let opinion = parse_export("DEVNAME=/dev/x\nTYPE=ext4\n\nPTTYPE=\n").unwrap();
        assert_eq!(opinion, Opinion { kind: Some("ext4".to_owned()), table: None });
        assert_eq!(parse_export("garbage"), None);
    }

    #[test]
    fn device_is_blank_only_if_probe_and_blkid_find_nothing() {
        let blank =
            || super::super::blank::prove(&super::super::Area::new(&super::super::tests::Zeros, 4096), 7).unwrap();
        assert_eq!(reconcile(blank(), &Opinion::default()), Ok(blank()));
        let zfs = Opinion { kind: Some("zfs_member".to_owned()), table: None };
        assert_eq!(reconcile(blank(), &zfs), Err(("nothing".to_owned(), "zfs_member".to_owned())));
        let gpt = Opinion { kind: None, table: Some("gpt".to_owned()) };
        assert!(reconcile(blank(), &gpt).is_err());
        let data = Contents::Data { offset: 7 };
        let named = reconcile(data, &zfs).unwrap();
        assert_eq!(named, Contents::Foreign { what: "zfs_member".to_owned(), offset: 7 });
    }

    #[test]
    fn blkid_exit_code_with_unexpected_output_is_rejected() {
        let of = |kind: Option<&str>, table: Option<&str>| {
            Some(Opinion { kind: kind.map(str::to_owned), table: table.map(str::to_owned) })
        };
        assert_eq!(opinion(Some(2), ""), Some(Opinion::default()));
        assert_eq!(opinion(Some(0), "TYPE=ext4"), of(Some("ext4"), None));
        assert_eq!(opinion(Some(0), "PTTYPE=gpt"), of(None, Some("gpt")));
        assert_eq!(opinion(Some(0), "DEVNAME=/dev/x"), Some(Opinion::default()));
        assert_eq!(opinion(Some(8), "").unwrap().words(), "signatures that contradict each other");
        for (code, output) in
            [(Some(2), "error: cannot open"), (Some(0), "garbage"), (Some(4), ""), (Some(1), ""), (None, "")]
        {
            assert_eq!(opinion(code, output), None, "{code:?} {output}");
        }
    }

    #[test]
    fn file_system_is_accepted_only_if_blkid_finds_the_same() {
        let opinion = |kind: &str, table: &str| {
            let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            Opinion { kind: text(kind), table: text(table) }
        };
        let complete = || super::super::tests::contents_of_new_ext4(false);
        let begun = || super::super::tests::contents_of_new_ext4(true);
        for (kind, table, whole, incomplete) in [
            ("ext4", "", true, true),
            ("ext3", "", true, true),
            ("", "", false, true),
            ("xfs", "", false, false),
            ("ext4", "dos", false, false),
            ("", "gpt", false, false),
            ("LVM2_member", "", false, false),
        ] {
            assert_eq!(reconcile(complete(), &opinion(kind, table)).is_ok(), whole, "{kind:?} {table:?}");
            assert_eq!(reconcile(begun(), &opinion(kind, table)).is_ok(), incomplete, "{kind:?} {table:?}, begun");
        }
        let data = || Contents::Data { offset: 7 };
        assert_eq!(reconcile(data(), &Opinion::default()), Ok(data()));
        let luks = || Contents::Foreign { what: "LUKS encryption".to_owned(), offset: 0 };
        assert_eq!(reconcile(luks(), &opinion("ext4", "")), Ok(luks()));
        assert_eq!(opinion("", "").words(), "nothing");
        assert_eq!(opinion("", "gpt").words(), "a gpt partition table");
        assert_eq!(opinion("ext4", "dos").words(), "ext4 together with a dos partition table");
    }
}
