//! Checks the content of the image, which is the same for every way to build it.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use ebs_testkit::run_dir::OwnDir;

use super::{DRIVER, HERE, PROGRAMS, assembled, repository, rust_image};

const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
const KINDS: u32 = 0o170_000;

/// The image has the driver, the listed file-system tools, their libraries and loader, certificates, licences and
/// databases of users and packages. It has no shell, no package manager and no other executable.
#[tokio::test]
async fn image_contains_only_driver_and_listed_tools() -> anyhow::Result<()> {
    let place = OwnDir::new("image-")?;
    let tree = assembled(HERE, DRIVER, &place.path().join("tree")).await?;
    let is_library = |path: &str| path.starts_with("usr/lib/") && path.contains(".so");
    let run: BTreeSet<&str> = tree
        .iter()
        .filter(|(path, (mode, _))| mode & KINDS == 0o100_000 && mode & 0o111 != 0 && !is_library(path))
        .map(|(path, _)| path.as_str())
        .collect();
    let mut wanted: BTreeSet<&str> = PROGRAMS.into();
    wanted.insert("usr/bin/aws-ebs-csi-driver");
    ensure!(run == wanted, "{run:?}");
    let places = [
        "etc/",
        "usr/bin/",
        "usr/lib/",
        "usr/lib64/",
        "usr/sbin/",
        "usr/share/common-licenses/",
        "usr/share/doc/",
        "var/lib/dpkg/status.d/",
    ];
    for (path, (mode, _)) in tree.iter().filter(|(_, (mode, _))| mode & KINDS != DIRECTORY) {
        let is_short = mode & KINDS == LINK && !path.contains('/');
        ensure!(is_short || places.iter().any(|place| path.starts_with(place)), "{path} has no place in the image");
        // Every user can read each file, and only root can write it. No file is set-user-id.
        let permissions = mode & 0o7777;
        ensure!(mode & KINDS == LINK || [0o644, 0o755].contains(&permissions), "{path} has mode {permissions:o}");
    }
    let documented = tree.keys().filter_map(|path| path.strip_prefix("var/lib/dpkg/status.d/"));
    for package in documented {
        let texts = [format!("usr/share/doc/{package}"), format!("usr/share/doc/{package}/copyright")];
        let is_there = |path: &String| tree.get(path).is_some_and(|(mode, _)| mode & KINDS != DIRECTORY);
        ensure!(texts.iter().any(is_there), "{package} has no copyright file");
    }
    for path in ["etc/ssl/certs/ca-certificates.crt", "etc/mke2fs.conf", "usr/share/doc/aws-ebs-csi-driver/LICENSE"] {
        ensure!(tree.contains_key(path), "{path} is missing");
    }
    Ok(())
}

/// `deploy/image/assemble` fails when a program is for another architecture.
#[tokio::test]
async fn image_build_rejects_a_driver_for_another_architecture() -> anyhow::Result<()> {
    let place = OwnDir::new("image-")?;
    let other = if HERE == "amd64" { "arm64" } else { "amd64" };
    let error = assembled(other, DRIVER, &place.path().join("tree")).await.err().context("a driver was accepted")?;
    ensure!(format!("{error:#}").contains(&format!("is not for {other}")), "{error:#}");
    Ok(())
}

#[test]
fn image_contains_every_program_that_node_starts() -> anyhow::Result<()> {
    let page = std::fs::read_to_string(repository().join("docs/security.md"))?;
    let table = page.split("## Programs").nth(1).and_then(|rest| rest.split("##").next()).context("its programs")?;
    let named = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let named: Vec<&str> = named.collect();
    ensure!(named.len() >= 6, "{named:?}");
    for name in named {
        ensure!(PROGRAMS.iter().any(|program| program.ends_with(&format!("/{name}"))), "{name}");
    }
    Ok(())
}

/// The Dockerfile builds the image from the same files, with the same script and settings, and with the repository's
/// compiler version.
#[test]
fn dockerfile_uses_the_build_scripts_and_image_settings() -> anyhow::Result<()> {
    let text = std::fs::read_to_string(repository().join("deploy/image/Dockerfile"))?;
    let (build, last) = text.split_once("FROM scratch\n").context("a last stage from nothing")?;
    let last: Vec<&str> = last.lines().filter(|line| !line.is_empty()).collect();
    let path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    let settings = [
        "COPY --from=build /tree /".to_owned(),
        format!("ENV {path}"),
        "WORKDIR /".to_owned(),
        "ENTRYPOINT [\"/bin/aws-ebs-csi-driver\"]".to_owned(),
    ];
    ensure!(last == settings, "{last:?}");
    let pack = std::fs::read_to_string(repository().join("deploy/image/pack"))?;
    let same = format!("Env: [\"{path}\"], Entrypoint: [\"/bin/\\($name)\"], WorkingDir: \"/\"");
    ensure!(pack.contains(&same), "deploy/image/pack has other settings");
    let base = format!("{} AS build", rust_image()?);
    ensure!(build.contains(&base), "the first stage is not from {base}");
    // The Dockerfile's build stage and make both run these scripts of the repository.
    for script in ["scripts/setup image", "deploy/image/build ", "deploy/image/assemble "] {
        ensure!(build.contains(script), "the first stage does not run {script}");
    }
    let version = format!("aws-ebs-csi-driver:v{}", env!("CARGO_PKG_VERSION"));
    ensure!(build.contains(&version), "its head names another version than {version}");
    Ok(())
}
