//! Checks that release builds are reproducible and that the documents of a release are complete.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use ebs_testkit::process::tool;
use ebs_testkit::run_dir::OwnDir;
use serde_json::{Value, json};

use super::{BOUND, HERE, location, repository, script, text, variable};

/// Creates a small program that lists two crates as its dependencies, as `cargo auditable` does.
pub(crate) async fn driver(place: &Path) -> anyhow::Result<(String, [String; 2])> {
    let lock = std::fs::read_to_string(repository().join("Cargo.lock"))?;
    let version = |name: &str| {
        let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \"")).context("a crate")?;
        Ok::<_, anyhow::Error>(rest.split('"').next().unwrap_or_default().to_owned())
    };
    let (anyhow, bytes) = (version("anyhow")?, version("bytes")?);
    let listed = json!({ "packages": [
        { "name": "anyhow", "version": anyhow, "source": "crates.io" },
        { "name": "bytes", "version": bytes, "source": "crates.io" },
        { "name": "ebs-csi-driver", "version": env!("CARGO_PKG_VERSION"), "source": "local", "dependencies": [0, 1], "root": true },
    ] });
    let (list, program) = (place.join("list"), place.join("program"));
    let mut compressed = flate2::write::ZlibEncoder::new(std::fs::File::create(&list)?, flate2::Compression::best());
    compressed.write_all(listed.to_string().as_bytes())?;
    compressed.finish()?;
    let section = format!(".dep-v0={}", list.display());
    tool("/usr/bin/objcopy", &["--add-section", &section, "/usr/bin/env", text(&program)?], BOUND).await?;
    Ok((format!("{HERE}={}", program.display()), [format!("anyhow {anyhow}"), format!("bytes {bytes}")]))
}

async fn release(driver: &str, to: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    script("deploy/image/pack", &["--release", "--newer", text(to)?, driver]).await?;
    let files = std::fs::read_dir(to)?.map(|entry| {
        let entry = entry?;
        Ok((entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?))
    });
    files.collect()
}

/// Checks that each crate and each Debian package in the bill has a version, a licence and a package URL.
fn bill_is_complete(bill: &[u8], crates: &[String; 2]) -> anyhow::Result<()> {
    let bill: Value = serde_json::from_slice(bill)?;
    let mut listed = BTreeSet::new();
    let packages = bill["packages"].as_array().context("packages")?;
    for package in packages.iter().filter(|package| package["primaryPackagePurpose"].is_null()) {
        let (name, version) = (package["name"].as_str().context("a name")?, &package["versionInfo"]);
        let title = format!("{name} {}", version.as_str().context("a version")?);
        let licence = package["licenseDeclared"].as_str().unwrap_or("NOASSERTION");
        ensure!(licence != "NOASSERTION", "{title} has no licence");
        let purl = package["externalRefs"][0]["referenceLocator"].as_str().context("a package URL")?;
        let kind = if purl.starts_with("pkg:deb/debian/") { "Debian" } else { "crate" };
        ensure!(purl.contains(name) && !purl.contains('+'), "{title}: {purl}");
        listed.insert((kind, if kind == "Debian" { name.to_owned() } else { title }));
    }
    ensure!(listed.iter().filter(|(kind, _)| *kind == "Debian").count() >= 14, "{listed:?}");
    for title in crates {
        ensure!(listed.contains(&("crate", title.clone())), "{title} is missing: {listed:?}");
    }
    Ok(())
}

/// The test compares the image, the chart and all other files, and checks their checksums.
#[tokio::test]
async fn release_builds_from_the_same_inputs_are_identical() -> anyhow::Result<()> {
    let place = OwnDir::new("release-")?;
    let (driver, crates) = driver(place.path()).await?;
    let (one, other) = (place.path().join("one"), place.path().join("other"));
    let first = release(&driver, &one).await?;
    let second = release(&driver, &other).await?;
    ensure!(first.keys().eq(second.keys()), "{:?} and {:?}", first.keys(), second.keys());
    for (name, bytes) in &first {
        ensure!(second[name] == *bytes, "{name} differs between two builds");
    }
    let version = env!("CARGO_PKG_VERSION");
    let named = |end: &str| format!("aws-ebs-csi-driver-{version}-{}", end.replace("amd64", HERE));
    for wanted in ["linux-amd64.tar.gz", "image-amd64.tar", "amd64.spdx.json"] {
        ensure!(first.contains_key(&named(wanted)), "{wanted}: {:?}", first.keys());
    }
    bill_is_complete(&first[&named("amd64.spdx.json")], &crates)?;
    let sums = String::from_utf8(first["SHA256SUMS"].clone())?;
    ensure!(sums.lines().count() + 1 == first.len(), "{sums}");
    let checked = ["-c", "cd \"$1\" && sha256sum --check --strict SHA256SUMS", "sh", text(&one)?];
    tool("/bin/sh", &checked, BOUND).await?;
    // The archive has each licence text once, under the crates that use it.
    let archive = one.join(named("linux-amd64.tar.gz"));
    let licences = ["-xzOf", text(&archive)?, "--wildcards", "*/THIRD-PARTY-LICENSES"];
    let licences = tool("/usr/bin/tar", &licences, BOUND).await?;
    ensure!(crates.iter().all(|title| licences.contains(&format!("\n{title}: "))), "{licences}");
    ensure!(licences.matches("Permission is hereby granted").count() >= 1, "{licences}");
    // Helm accepts the repacked chart.
    let chart = one.join(format!("aws-ebs-csi-driver-{version}.tgz"));
    // Without an explicit version, Helm assumes an old version of Kubernetes.
    let render = ["template", "x", text(&chart)?, "--kube-version", "1.34.0"];
    let rendered = tool(&variable("EBS_TEST_HELM")?, &render, BOUND).await?;
    let (home, path) = location()?;
    let image = format!("ghcr.io/{}/aws-ebs-csi-driver", path.to_lowercase());
    ensure!(rendered.contains(&format!("{image}:v{version}")), "the chart does not start {image}:v{version}");
    let shown = tool(&variable("EBS_TEST_HELM")?, &["show", "all", text(&chart)?], BOUND).await?;
    let documents = format!("{home}/blob/v{version}/docs/install.md");
    for wanted in [format!("home: {home}"), format!("repository: {image}"), documents] {
        ensure!(shown.contains(&wanted), "the chart has no {wanted}");
    }
    Ok(())
}

/// A release is written only into an empty directory.
#[tokio::test]
async fn release_is_not_written_into_a_nonempty_directory() -> anyhow::Result<()> {
    let place = OwnDir::new("release-")?;
    std::fs::write(place.path().join("photographs"), "of the holidays")?;
    let driver = format!("{HERE}=/usr/bin/env");
    let error = release(&driver, place.path()).await.err().context("a release over other files")?;
    ensure!(format!("{error:#}").contains("has files that are not from a release"), "{error:#}");
    ensure!(place.path().join("photographs").is_file(), "the photographs are gone");
    Ok(())
}
