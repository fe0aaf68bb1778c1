//! The build of a release is reproducible.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_image::contents::DRIVER_IMAGE;
use ebs_image::lock::Pinned;
use ebs_image::oci::About;
use ebs_image::release::Inputs;
use ebs_testkit::process::tool;
use ebs_testkit::run_dir::OwnDir;

use super::{HERE, packages_directory, repository};

const BOUND: Duration = Duration::from_secs(120);

fn helm() -> anyhow::Result<String> {
    std::env::var("EBS_TEST_HELM").context("EBS_TEST_HELM: eval \"$(scripts/setup test)\" builds Helm and says where")
}

/// Builds a release with a small program in place of the driver.
async fn release(to: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let about = About {
        what: DRIVER_IMAGE,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: "abc".to_owned(),
        epoch: 1_700_000_000,
    };
    let drivers = vec![(HERE, "/usr/bin/env".into())];
    let inputs = Inputs { root: repository(), packages: packages_directory()?, pinned: Pinned::ByName, drivers, about };
    let names = inputs.release(&helm()?, to).await?;
    names.into_iter().map(|name| Ok((name.clone(), std::fs::read(to.join(&name))?))).collect()
}

/// The comparison covers the image, the chart and all other files, and their checksums match.
#[tokio::test]
async fn releases_of_same_inputs_have_same_bytes() -> anyhow::Result<()> {
    let place = OwnDir::new("release-")?;
    let (one, other) = (place.path().join("one"), place.path().join("other"));
    let first = release(&one).await?;
    let second = release(&other).await?;
    ensure!(first.keys().eq(second.keys()), "{:?} and {:?}", first.keys(), second.keys());
    for (name, bytes) in &first {
        ensure!(second[name] == *bytes, "{name} differs between two builds");
    }
    let version = env!("CARGO_PKG_VERSION");
    for wanted in
        ["linux-amd64.tar.gz", "image-amd64.tar", "amd64.spdx.json"].map(|name| name.replace("amd64", HERE.name()))
    {
        ensure!(first.contains_key(&format!("aws-ebs-csi-driver-{version}-{wanted}")), "{wanted}: {:?}", first.keys());
    }
    let sums = String::from_utf8(first["SHA256SUMS"].clone())?;
    ensure!(sums.lines().count() + 1 == first.len(), "{sums}");
    let there = one.join("SHA256SUMS");
    let checked = ["-c", "cd \"$1\" && sha256sum --check --strict SHA256SUMS", "sh", one.to_str().context("text")?];
    tool("/bin/sh", &checked, BOUND).await.with_context(|| there.display().to_string())?;
    // Helm accepts the repacked chart.
    let chart = one.join(format!("aws-ebs-csi-driver-{version}.tgz"));
    // Helm assumes an ancient cluster without an explicit version.
    let render = ["template", "x", chart.to_str().context("text")?, "--kube-version", "1.34.0"];
    let rendered = tool(&helm()?, &render, BOUND).await?;
    ensure!(rendered.contains(&format!("aws-ebs-csi-driver:v{version}")), "the chart asks for another image");
    Ok(())
}

/// A release needs an empty directory.
#[tokio::test]
async fn directory_with_other_files_is_left_alone() -> anyhow::Result<()> {
    let place = OwnDir::new("release-")?;
    std::fs::write(place.path().join("photographs"), "of the holidays")?;
    let error = release(place.path()).await.err().context("a release over something else")?;
    ensure!(format!("{error:#}").contains("something else"), "{error:#}");
    ensure!(place.path().join("photographs").is_file(), "they are gone");
    Ok(())
}
