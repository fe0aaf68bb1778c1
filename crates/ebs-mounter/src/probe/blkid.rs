//! The second opinion: `blkid -p`, which knows a hundred signatures more than we do.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use super::Contents;
use crate::fs_type::FsType;
use crate::tool::{Call, Finished, Program, ToolError, Tools};

/// How long blkid may take before it is killed.
const BOUND: Duration = Duration::from_secs(60);
/// Its exit code when it recognises nothing. Also when it cannot open or read; then it says so, and that is no opinion.
const NOTHING: i32 = 2;
/// Its exit code when signatures contradict each other.
const AMBIVALENT: i32 = 8;

/// What blkid recognises.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Opinion {
    /// A file system, RAID member, encryption …
    kind: Option<String>,
    /// A partition table.
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

/// The call that asks.
pub(super) fn call(device: &Path) -> Call {
    let args = ["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", "--"].map(OsStr::new);
    Call::new(Program::Blkid, args.into_iter().chain([device.as_os_str()]))
}

/// Asks blkid.
pub(super) async fn ask(tools: &Tools, device: &Path) -> Result<Opinion, ToolError> {
    let ended = tools.read(call(device), BOUND).await?;
    parse(ended)
}

fn parse(ended: Finished) -> Result<Opinion, ToolError> {
    match ended.code() {
        Some(NOTHING) if ended.output.is_empty() => Ok(Opinion::default()),
        Some(AMBIVALENT) => Ok(Opinion { kind: Some("signatures that contradict each other".to_owned()), table: None }),
        Some(0) => match parse_export(&ended.output) {
            Some(opinion) => Ok(opinion),
            None => Err(ended.into_error()),
        },
        _ => Err(ended.into_error()),
    }
}

/// `KEY=VALUE` lines; `None` when a line is none.
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

/// Both opinions as one; `Err` holds the two in words when they disagree.
pub(super) fn reconcile(own: Contents, second: &Opinion) -> Result<Contents, (String, String)> {
    let nothing = *second == Opinion::default();
    let as_ours = |fs: FsType| {
        second.table.is_none()
            && second.kind.as_deref().is_some_and(|kind| FsType::parse(kind).is_ok_and(|kind| fs.accepts(kind)))
    };
    let agrees = match &own {
        Contents::Blank(_) => nothing,
        Contents::Filesystem(superblock) => as_ours(superblock.fs_type()) || (nothing && !superblock.is_complete()),
        // It is refused anyway; blkid may know its name.
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
    fn blkid_is_asked_by_probing_and_never_from_its_cache() {
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
    fn export_lines_are_split_at_the_first_equals_sign() {
        let opinion = parse_export("DEVNAME=/dev/x\nTYPE=ext4\n\nPTTYPE=\n").unwrap();
        assert_eq!(opinion, Opinion { kind: Some("ext4".to_owned()), table: None });
        assert_eq!(parse_export("garbage"), None);
    }

    /// Blank needs our own proof and blkid to agree.
    ///
    /// Rule: D-31
    #[test]
    fn blank_needs_both_to_find_nothing() {
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
}
