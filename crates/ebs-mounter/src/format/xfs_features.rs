//! Names all features of a new xfs, which would otherwise depend on the installed mkfs.xfs. They equal the defaults of
//! xfsprogs 6.12, minus the features that the running kernel lacks. Every kernel mounts any geometry, so mkfs.xfs
//! chooses the geometry. Decision: `docs/dev/decisions/0019-name-every-mkfs-feature.md`.

use std::time::Duration;

use tokio::sync::OnceCell;

use crate::tools::{Call, Program, ToolError, Tools};

/// The first kernels with newer XFS features: `BIGTIME_KERNEL` for bigtime and inode B-tree counters,
/// `LARGE_EXTENTS_KERNEL` for large extent counters.
const BIGTIME_KERNEL: (u32, u32) = (5, 10);
const LARGE_EXTENTS_KERNEL: (u32, u32) = (5, 19);
/// The exit code of mkfs.xfs when it only parses its arguments.
const USAGE: i32 = 1;
const BOUND: Duration = Duration::from_secs(60);

/// The flag and option of a feature. A version of mkfs.xfs that does not support the option lacks the feature.
pub(crate) type Feature = (&'static str, &'static str);

/// File systems with checksums have long allowed only one value for each of the first six options, which a later
/// version may drop. The others came with xfsprogs 6.10 and 6.13; version 6.12 enables none of them.
const OPTIONAL: [Feature; 9] = [
    ("-i", "attr=2"),
    ("-i", "projid32bit=1"),
    ("-n", "version=2"),
    ("-n", "ftype=1"),
    ("-l", "version=2"),
    ("-l", "lazy-count=1"),
    ("-i", "exchange=0"),
    ("-n", "parent=0"),
    ("-m", "metadir=0"),
];

/// Returns the optional features that the installed mkfs.xfs supports. Queries mkfs.xfs only once.
pub(super) async fn known(tools: &Tools) -> Result<&'static [Feature], ToolError> {
    static KNOWN: OnceCell<Vec<Feature>> = OnceCell::const_new();
    let query = || async {
        let mut known = Vec::new();
        for (flag, option) in OPTIONAL {
            // Without a device, mkfs.xfs only parses its options and reports unknown ones.
            let call = Call::new(Program::MkfsXfs, ["-N", flag, option]);
            let ended = tools.read(call, BOUND).await?;
            if ended.code() != Some(USAGE) {
                return Err(ended.into_error());
            }
            if !ended.output.contains("unknown option") {
                known.push((flag, option));
            }
        }
        Ok(known)
    };
    KNOWN.get_or_try_init(query).await.map(Vec::as_slice)
}

/// Returns the arguments, with each flag once. `inode_size` joins the other inode options.
pub(crate) fn args(kernel: (u32, u32), legacy: bool, inode_size: Option<&str>, known: &[Feature]) -> Vec<String> {
    let bit = |on: bool| u8::from(on);
    let reflink = bit(!legacy);
    let bigtime = bit(!legacy && kernel >= BIGTIME_KERNEL);
    let large_extents = bit(!legacy && kernel >= LARGE_EXTENTS_KERNEL);
    let metadata = format!("crc=1,finobt=1,rmapbt=1,reflink={reflink},bigtime={bigtime},inobtcount={bigtime}");
    let inodes = format!("sparse=1,nrext64={large_extents}");
    let inodes = inode_size.map_or_else(|| inodes.clone(), |size| format!("size={size},{inodes}"));
    let of = |flag: &str, always: String| {
        let some = known.iter().filter(|(of, _)| *of == flag).map(|(_, option)| (*option).to_owned());
        let options: Vec<String> = Some(always).filter(|text| !text.is_empty()).into_iter().chain(some).collect();
        (!options.is_empty()).then(|| [flag.to_owned(), options.join(",")])
    };
    let flags = [of("-m", metadata), of("-i", inodes), of("-n", String::new()), of("-l", String::new())];
    flags.into_iter().flatten().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kernel: (u32, u32), legacy: bool, known: &[Feature]) -> String {
        args(kernel, legacy, None, known).join(" ")
    }

    /// Features that a later mkfs.xfs may enable by default are disabled by name. Options that the installed version
    /// does not support are left out.
    #[test]
    fn every_xfs_feature_known_to_mkfs_is_set_explicitly() {
        let lines = [
            line((6, 18), false, &OPTIONAL),
            line((6, 18), false, &OPTIONAL[..6]),
            line((5, 10), false, &OPTIONAL[..6]),
            line((4, 14), false, &[]),
            line((6, 18), true, &OPTIONAL),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        -m crc=1,finobt=1,rmapbt=1,reflink=1,bigtime=1,inobtcount=1,metadir=0 -i sparse=1,nrext64=1,attr=2,projid32bit=1,exchange=0 -n version=2,ftype=1,parent=0 -l version=2,lazy-count=1
        -m crc=1,finobt=1,rmapbt=1,reflink=1,bigtime=1,inobtcount=1 -i sparse=1,nrext64=1,attr=2,projid32bit=1 -n version=2,ftype=1 -l version=2,lazy-count=1
        -m crc=1,finobt=1,rmapbt=1,reflink=1,bigtime=1,inobtcount=1 -i sparse=1,nrext64=0,attr=2,projid32bit=1 -n version=2,ftype=1 -l version=2,lazy-count=1
        -m crc=1,finobt=1,rmapbt=1,reflink=1,bigtime=0,inobtcount=0 -i sparse=1,nrext64=0
        -m crc=1,finobt=1,rmapbt=1,reflink=0,bigtime=0,inobtcount=0,metadir=0 -i sparse=1,nrext64=0,attr=2,projid32bit=1,exchange=0 -n version=2,ftype=1,parent=0 -l version=2,lazy-count=1
        ");
    }

    #[tokio::test]
    async fn installed_mkfs_xfs_is_queried_for_its_features() {
        let tools = Tools::find("/no-cgroups".into());
        let known = known(&tools).await.unwrap();
        assert!(known.contains(&("-n", "ftype=1")), "{known:?}");
        let bogus = Call::new(Program::MkfsXfs, ["-N", "-n", "nonsense=1"]);
        assert!(tools.read(bogus, BOUND).await.unwrap().output.contains("unknown option"));
    }
}
