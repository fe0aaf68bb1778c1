//! The image for arm64.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_image::assemble::{Files, Texts, files};
use ebs_image::contents::PROGRAMS;
use ebs_image::platform::Platform;
use ebs_image::tree::Tree;
use ebs_testkit::process::tool;
use ebs_testkit::run_dir::OwnDir;

use super::packages_of;

const BOUND: Duration = Duration::from_secs(120);

/// Returns the image's files, with any program of the platform in place of the driver.
async fn with_any_driver(platform: Platform) -> anyhow::Result<Files> {
    let packages = packages_of(platform).await?;
    let any = packages.iter().find_map(|package| package.file("usr/sbin/mke2fs")).context("a program")?;
    files(platform, &packages, any, &Texts::new())
}

/// Returns the paths without the name of the machine type.
fn paths(tree: &Tree) -> BTreeSet<String> {
    let paths = tree.nodes().map(|(path, _)| path.replace("x86_64", "M").replace("aarch64", "M"));
    paths.map(|path| path.replace("lib/M-linux-gnu", "lib")).filter(|path| !path.contains("ld-linux")).collect()
}

/// The images for arm64 and amd64 are built from the same files, by the same recipe.
#[tokio::test]
async fn both_platforms_have_the_same_files() -> anyhow::Result<()> {
    let amd64 = paths(&with_any_driver(Platform::Amd64).await?.joined()?);
    let arm64 = paths(&with_any_driver(Platform::Arm64).await?.joined()?);
    let different: Vec<&String> = amd64.symmetric_difference(&arm64).collect();
    ensure!(different.iter().all(|path| path.contains("lib64")), "{different:?}");
    Ok(())
}

/// An emulator runs the tools with only the libraries of the image.
#[tokio::test]
async fn every_arm64_tool_starts_with_libraries_of_image() -> anyhow::Result<()> {
    let qemu = std::env::var("EBS_TEST_QEMU_AARCH64");
    let qemu = qemu.context("EBS_TEST_QEMU_AARCH64: eval \"$(scripts/setup test)\" fetches it and says where")?;
    let root = OwnDir::new("arm64-")?;
    with_any_driver(Platform::Arm64).await?.joined()?.write(root.path(), 1)?;
    let packages = packages_of(Platform::Arm64).await?;
    let versions: Vec<&str> = packages.iter().filter_map(|package| package.version.split('-').next()).collect();
    let root = root.path().to_str().context("a path that is text")?;
    for program in PROGRAMS {
        let path = format!("{root}/{}", program.path);
        // All of them print their version for this argument. resize2fs then fails, and the error has its output.
        let said = tool(&qemu, &["-L", root, &path, "-V"], BOUND).await.unwrap_or_else(|error| format!("{error:#}"));
        ensure!(versions.iter().any(|version| said.contains(version)), "{path}: {said}");
    }
    Ok(())
}
