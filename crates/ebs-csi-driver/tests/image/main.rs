//! Tests the container images: their content, their reproducible build, and
//! how a release is published. Needs the programs that `scripts/setup test`
//! fetches.

mod contents;
mod on_arm64;
mod published;
mod reproducible;
mod windows;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use ebs_testkit::process::tool;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
/// This machine's architecture, as Debian and OCI name it.
const HERE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
/// The programs of the image except the driver.
const PROGRAMS: [&str; 8] = [
    "usr/sbin/blkid",
    "usr/sbin/dumpe2fs",
    "usr/sbin/e2fsck",
    "usr/sbin/mke2fs",
    "usr/sbin/mkfs.xfs",
    "usr/sbin/resize2fs",
    "usr/sbin/xfs_growfs",
    "usr/sbin/xfs_repair",
];
const BOUND: Duration = Duration::from_secs(300);

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the address and the path `OWNER/REPO` of the repository, from the only place that names them.
fn location() -> anyhow::Result<(String, String)> {
    let manifest = std::fs::read_to_string(repository().join("Cargo.toml"))?;
    let home = manifest.lines().find_map(|line| line.strip_prefix("repository = \"")?.strip_suffix('"'));
    let home = home.context("repository in Cargo.toml")?;
    let path = home.strip_prefix("https://github.com/").context("an address on GitHub")?;
    Ok((home.to_owned(), path.to_owned()))
}

/// Returns the name of the image with this repository's compiler version, in which releases are built.
fn rust_image() -> anyhow::Result<String> {
    let toolchain = std::fs::read_to_string(repository().join("rust-toolchain.toml"))?;
    let version = toolchain.lines().find_map(|line| line.strip_prefix("channel = \"")?.strip_suffix('"'));
    Ok(format!("docker.io/library/rust:{}-bookworm", version.context("a channel")?))
}

fn variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set; run eval \"$(scripts/setup test)\""))
}

/// Runs a script of the repository with the environment of this process and a fixed timestamp for all files.
async fn script(path: &str, args: &[&str]) -> anyhow::Result<String> {
    variable("EBS_CRANE")?;
    let mut environment: BTreeMap<String, String> = std::env::vars().collect();
    environment.insert("SOURCE_DATE_EPOCH".to_owned(), "1700000000".to_owned());
    environment.insert("EBS_HELM".to_owned(), variable("EBS_TEST_HELM")?);
    let environment: Vec<String> = environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let path = repository().join(path);
    let words = environment.iter().map(String::as_str).chain(["/bin/bash", text(&path)?]);
    tool("/usr/bin/env", &words.chain(args.iter().copied()).collect::<Vec<_>>(), BOUND).await
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("a path that is text")
}

/// The files of an image by path, each with its permissions and, for a link, its target.
type Tree = BTreeMap<String, (u32, Option<PathBuf>)>;

/// Assembles the files of an image with this program as the driver.
async fn assembled(architecture: &str, driver: &str, to: &Path) -> anyhow::Result<Tree> {
    script("deploy/image/assemble", &["--newer", "--plain", architecture, driver, text(to)?]).await?;
    let mut tree = Tree::new();
    let mut ahead = vec![to.to_owned()];
    while let Some(directory) = ahead.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            let metadata = path.symlink_metadata()?;
            if metadata.is_dir() {
                ahead.push(path.clone());
            }
            let link = metadata.is_symlink().then(|| std::fs::read_link(&path)).transpose()?;
            tree.insert(text(path.strip_prefix(to)?)?.to_owned(), (metadata.mode(), link));
        }
    }
    Ok(tree)
}
