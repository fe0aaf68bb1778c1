//! `deploy/image/packages.lock`: the packages of the image's files, each with its version and the SHA-256 of its file.
//! `deploy/image/fetch --update` writes it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};

use crate::package::{Package, debs};
use crate::platform::Platform;

const LOCK: &str = include_str!("../../../deploy/image/packages.lock");

/// How strictly packages are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinned {
    /// Each must be exactly the listed file, for a release.
    Exactly,
    /// Newer versions are accepted: Debian removes old ones, and tests should not fail because of that.
    ByName,
}

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pin {
    version: String,
    sha256: String,
}

/// Reads the packages of a platform from a directory of `.deb` files, sorted by name.
///
/// # Errors
/// A package is missing, not listed, or differs from the list.
pub async fn packages(directory: &Path, platform: Platform, pinned: Pinned) -> anyhow::Result<Vec<Package>> {
    let mut wanted = pins(LOCK, platform)?;
    let mut packages = Vec::new();
    for deb in debs(directory)? {
        let package = Package::read(&deb, platform).await?;
        let pin = wanted.remove(&package.name);
        let pin = pin.with_context(|| format!("{} is missing in packages.lock, or listed twice", deb.display()))?;
        if pinned == Pinned::Exactly {
            let bytes = std::fs::read(&deb).with_context(|| format!("read {}", deb.display()))?;
            let found = hex::encode(Sha256::digest(&bytes));
            ensure!(
                (&package.version, &found) == (&pin.version, &pin.sha256),
                "{} has version {} and SHA-256 {found}, but packages.lock requires {} and {}",
                deb.display(),
                package.version,
                pin.version,
                pin.sha256
            );
        }
        packages.push(package);
    }
    let missing: Vec<String> = wanted.into_keys().collect();
    ensure!(missing.is_empty(), "{} lacks {}; run deploy/image/fetch", directory.display(), missing.join(", "));
    packages.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(packages)
}

/// Returns the pins by name.
fn pins(lock: &str, platform: Platform) -> anyhow::Result<BTreeMap<String, Pin>> {
    let lines = lock.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let mut pins = BTreeMap::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [machine, name, version, sha256] = words[..] else {
            anyhow::bail!("packages.lock: {line:?} is not `machine package version sha256`");
        };
        ensure!(sha256.len() == 64, "packages.lock: {sha256:?} is not a SHA-256");
        if machine.parse::<Platform>()? == platform {
            let pin = Pin { version: version.to_owned(), sha256: sha256.to_owned() };
            ensure!(pins.insert(name.to_owned(), pin).is_none(), "packages.lock lists {name} twice for {machine}");
        }
    }
    Ok(pins)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contents::LICENCES;

    /// Packages are pinned by version and by the checksum of their files.
    #[test]
    fn platforms_have_the_same_packages_with_licences() {
        let [amd64, arm64] = Platform::ALL.map(|platform| pins(LOCK, platform).unwrap());
        assert_eq!(amd64.keys().collect::<Vec<_>>(), arm64.keys().collect::<Vec<_>>());
        assert_eq!(amd64.keys().collect::<Vec<_>>(), LICENCES.map(|(name, _)| name).iter().collect::<Vec<_>>());
        for (name, pin) in &amd64 {
            // A rebuilt binary package of one machine has a suffix.
            let source = |version: &str| version.split("+b").next().map(str::to_owned);
            assert_eq!(source(&pin.version), source(&arm64[name].version), "{name}");
        }
    }

    #[test]
    fn invalid_line_of_the_lock_is_rejected() {
        let sum = "a".repeat(64);
        assert!(pins(&format!("# text\namd64 libc6 2.36-9 {sum}\n"), Platform::Amd64).is_ok());
        assert!(pins("amd64 libc6 2.36-9 abc\n", Platform::Amd64).is_err());
        assert!(pins(&format!("s390x libc6 2.36-9 {sum}\n"), Platform::Amd64).is_err());
        assert!(pins(&format!("amd64 a 1 {sum}\namd64 a 2 {sum}\n"), Platform::Amd64).is_err());
        assert!(pins("amd64 libc6\n", Platform::Amd64).is_err());
    }
}
