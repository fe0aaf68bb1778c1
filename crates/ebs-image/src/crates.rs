//! The crates in the driver's program, from cargo.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use cargo_metadata::{Metadata, Package};

use crate::child;
use crate::platform::Platform;

/// The package of the driver's program.
const PROGRAM: &str = "ebs-csi-driver";

/// A crate of another project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crate {
    pub name: String,
    pub version: String,
    /// The SPDX licence of its manifest.
    pub licence: String,
    /// The checksum of its file in the registry, if it is from one.
    pub sha256: Option<String>,
    /// The directory of its sources on this machine.
    pub(crate) directory: PathBuf,
}

/// Returns the crates that are linked into the program for a platform, by name and version. Crates that only build
/// scripts and macros use are left out.
///
/// # Errors
/// cargo fails, or `Cargo.lock` is outdated.
pub async fn linked(root: &Path, platform: Platform) -> anyhow::Result<Vec<Crate>> {
    let target = platform.target();
    let tree = ["tree", "--locked", "--package", PROGRAM, "--target", target, "--prefix", "none", "--format", "{p}"];
    let tree = child::cargo(root, &[tree.as_slice(), &["--edges", "normal,no-proc-macro"]].concat()).await?;
    let metadata = ["metadata", "--locked", "--format-version", "1", "--filter-platform", target];
    let metadata: Metadata = serde_json::from_str(&child::cargo(root, &metadata).await?).context("cargo metadata")?;
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).context("read Cargo.lock")?;
    let crates = of(&named(&tree), &metadata.packages, &checksums(&lock))?;
    ensure!(crates.len() > 50, "only {} crates found in the driver; the list is incomplete", crates.len());
    Ok(crates)
}

fn of(
    named: &BTreeSet<(String, String)>,
    packages: &[Package],
    checksums: &BTreeMap<(String, String), String>,
) -> anyhow::Result<Vec<Crate>> {
    let mut crates = Vec::new();
    for key in named {
        let (name, version) = key;
        let is_it = |package: &&Package| package.name.as_str() == name && package.version.to_string() == *version;
        let package =
            packages.iter().find(is_it).with_context(|| format!("{name} {version} is missing in cargo metadata"))?;
        if package.source.is_none() {
            continue;
        }
        let directory = package.manifest_path.parent().context("a manifest's directory")?.as_std_path().to_owned();
        let licence = package.license.clone().with_context(|| format!("{name} {version} has no licence"))?;
        // An old syntax of cargo for OR.
        let licence = licence.replace('/', " OR ");
        let sha256 = checksums.get(key).cloned();
        crates.push(Crate { name: name.clone(), version: version.clone(), licence, sha256, directory });
    }
    Ok(crates)
}

/// Returns names and versions of lines like `serde v1.0.228 (*)`.
fn named(tree: &str) -> BTreeSet<(String, String)> {
    let pairs = tree.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
    });
    pairs.collect()
}

/// Returns the checksums by name and version, from the text of `Cargo.lock`.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |section: &str, key: &str| {
        let line = section.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.and_then(|rest| rest.strip_suffix('"')).map(str::to_owned)
    };
    let sections = lock.split("[[package]]\n").skip(1);
    let found = sections.filter_map(|section| {
        Some(((value(section, "name")?, value(section, "version")?), value(section, "checksum")?))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crate_names_and_versions_are_unique() {
        let found = named("ebs-csi-driver v0.1.0 (/somewhere)\nserde v1.0.2\nserde v1.0.2 (*)\n\nh2 v0.4.1\n");
        let names: Vec<String> = found.iter().map(|(name, version)| format!("{name} {version}")).collect();
        assert_eq!(names, ["ebs-csi-driver 0.1.0", "h2 0.4.1", "serde 1.0.2"]);
    }

    #[test]
    fn checksum_belongs_to_its_name_and_version() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"aa\"\n\n[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";
        assert_eq!(checksums(lock), BTreeMap::from([(("a".to_owned(), "1.0.0".to_owned()), "aa".to_owned())]));
    }
}
