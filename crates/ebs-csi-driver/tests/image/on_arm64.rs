//! Tests the image for arm64.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use ebs_testkit::process::tool;
use ebs_testkit::run_dir::OwnDir;

use super::{BOUND, PROGRAMS, Tree, assembled, text, variable};

/// Assembles the image's files below the directory, with mke2fs as the driver.
async fn with_any_driver(architecture: &str, to: &Path) -> anyhow::Result<Tree> {
    let packages = PathBuf::from(variable("EBS_IMAGE_PACKAGES")?).join(architecture);
    let names = std::fs::read_dir(&packages)?.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    let is_it = |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("e2fsprogs_"));
    let package = names.iter().find(is_it).with_context(|| format!("{} has no e2fsprogs", packages.display()))?;
    let unpacked = to.with_extension("unpacked");
    tool("/usr/bin/dpkg-deb", &["--extract", text(package)?, text(&unpacked)?], BOUND).await?;
    assembled(architecture, text(&unpacked.join("sbin/mke2fs"))?, to).await
}

/// Returns the paths, without the part that names the machine type.
fn paths(tree: &Tree) -> BTreeSet<String> {
    let paths = tree.keys().map(|path| path.replace("x86_64", "M").replace("aarch64", "M"));
    paths.map(|path| path.replace("lib/M-linux-gnu", "lib")).filter(|path| !path.contains("ld-linux")).collect()
}

/// The images for arm64 and amd64 are built from the same files, by the same recipe. An emulator runs the tools with
/// only the libraries of the image.
#[tokio::test]
async fn arm64_image_has_the_files_of_amd64_and_its_tools_start() -> anyhow::Result<()> {
    let qemu = variable("EBS_TEST_QEMU_AARCH64")?;
    let place = OwnDir::new("arm64-")?;
    let root = place.path().join("arm64");
    let arm64 = paths(&with_any_driver("arm64", &root).await?);
    let amd64 = paths(&with_any_driver("amd64", &place.path().join("amd64")).await?);
    let different: Vec<&String> = amd64.symmetric_difference(&arm64).collect();
    ensure!(different.iter().all(|path| path.contains("lib64")), "{different:?}");
    let mut versions = Vec::new();
    for entry in std::fs::read_dir(root.join("var/lib/dpkg/status.d"))? {
        let control = std::fs::read_to_string(entry?.path())?;
        let version = control.lines().find_map(|line| line.strip_prefix("Version: ")).context("a version")?;
        versions.push(version.split('-').next().unwrap_or(version).to_owned());
    }
    for program in PROGRAMS {
        let path = format!("{}/{program}", root.display());
        // All tools print their version for this argument. resize2fs then fails, so its version is in the error.
        let said = tool(&qemu, &["-L", text(&root)?, &path, "-V"], BOUND).await;
        let said = said.unwrap_or_else(|error| format!("{error:#}"));
        ensure!(versions.iter().any(|version| said.contains(version)), "{path}: {said}");
    }
    Ok(())
}
