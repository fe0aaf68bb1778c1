//! The container image: its content, its reproducible build, and the node service in a containerd. Needs root and the
//! programs that `scripts/setup test` fetches. Every test that mounts has its own mount namespace.

mod contents;
mod in_containerd;
mod on_arm64;
mod reproducible;

use std::path::{Path, PathBuf};

use anyhow::Context;
use ebs_image::assemble::{Files, Texts, files};
use ebs_image::lock::{Pinned, packages};
use ebs_image::package::Package;
use ebs_image::platform::Platform;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
/// The platform of this machine.
const HERE: Platform = if cfg!(target_arch = "aarch64") { Platform::Arm64 } else { Platform::Amd64 };

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn packages_directory() -> anyhow::Result<PathBuf> {
    let named = std::env::var_os("EBS_TEST_IMAGE_PACKAGES");
    Ok(named.context("EBS_TEST_IMAGE_PACKAGES: eval \"$(scripts/setup test)\" fetches packages and says where")?.into())
}

async fn packages_of(platform: Platform) -> anyhow::Result<Vec<Package>> {
    packages(&packages_directory()?.join(platform.name()), platform, Pinned::ByName).await
}

/// Returns the image's files with the driver that cargo has built for tests.
async fn with_tests_driver() -> anyhow::Result<Files> {
    let driver = std::fs::read(DRIVER).context("the driver's program")?;
    files(HERE, &packages_of(HERE).await?, &driver, &Texts::new())
}
