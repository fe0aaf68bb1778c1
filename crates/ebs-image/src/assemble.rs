//! Assembles the image's files: those of [`contents`](crate::contents), from the packages and the driver's program.

use anyhow::{Context, ensure};

use crate::closure::Pick;
use crate::contents::{
    AUTHORITIES, AUTHORITIES_FROM, DEBIAN_FILES, DRIVER, FILES, LIB64, LINKS, LOADED_LATER, NAME, PROGRAMS,
};
use crate::elf::newest_glibc;
use crate::package::{Entry, Package, merged};
use crate::platform::Platform;
use crate::tree::{Node, Tree};

/// The image's files in two parts: the rarely changing part, which nodes need not download for each version, and the
/// driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    pub tools: Tree,
    pub driver: Tree,
}

impl Files {
    /// Returns both parts as one tree.
    ///
    /// # Errors
    /// The parts have different entries at one path.
    pub fn joined(&self) -> anyhow::Result<Tree> {
        let mut all = self.tools.clone();
        all.join(&self.driver)?;
        Ok(all)
    }
}

/// Texts that belong to the driver's program, by file name.
pub type Texts = Vec<(String, Vec<u8>)>;

/// Assembles the files.
///
/// # Errors
/// A required file is missing, a package is not needed, or the driver is for another machine or a newer glibc.
pub fn files(platform: Platform, packages: &[Package], driver: &[u8], texts: &Texts) -> anyhow::Result<Files> {
    fits(driver, packages)?;
    let mut pick = Pick::new(packages, platform);
    pick.take_needs_of(driver).context("the driver")?;
    for program in PROGRAMS {
        pick.take(program.path)?;
    }
    LOADED_LATER.iter().try_for_each(|name| pick.take_library(name))?;
    DEBIAN_FILES.iter().try_for_each(|path| pick.take(path))?;
    let (mut tools, used) = pick.end();
    let has_lib64 = tools.nodes().any(|(path, _)| path == LIB64.1);
    for (path, to) in LINKS.into_iter().chain(has_lib64.then_some(LIB64)) {
        tools.add(path, Node::Link(to.to_owned()))?;
    }
    for (path, text) in FILES {
        tools.file(path, text)?;
    }
    tools.file(AUTHORITIES, authorities(packages)?)?;
    document(&mut tools, packages)?;
    for package in packages {
        let is_used = used.iter().any(|used| used.name == package.name) || is_for_texts(package);
        ensure!(is_used, "no file of {} is in the image; remove it from packages.lock", package.name);
    }
    Ok(Files { tools, driver: driver_tree(driver, texts)? })
}

/// Returns whether only texts of the package are used: certificates, and the copyright of libgcc.
fn is_for_texts(package: &Package) -> bool {
    package.name == "ca-certificates" || package.name == "gcc-12-base"
}

fn driver_tree(driver: &[u8], texts: &Texts) -> anyhow::Result<Tree> {
    let mut tree = Tree::default();
    tree.add(&merged(DRIVER), Node::File { contents: driver.to_vec(), executable: true })?;
    for (name, text) in texts {
        tree.file(&format!("usr/share/doc/{NAME}/{name}"), text.clone())?;
    }
    Ok(tree)
}

/// Checks the driver's glibc: a program that was built with a newer one does not start.
fn fits(driver: &[u8], packages: &[Package]) -> anyhow::Result<()> {
    let libc = packages.iter().find(|package| package.name == "libc6").context("libc6 is missing in packages.lock")?;
    let minor = libc.version.strip_prefix("2.").and_then(|rest| rest.split(['-', '.']).next()?.parse::<u32>().ok());
    let minor = minor.with_context(|| format!("{} is not a version of glibc 2", libc.version))?;
    let asks = newest_glibc(driver).context("the driver")?.unwrap_or(0);
    ensure!(asks <= minor, "the driver requires glibc 2.{asks}, but the image has 2.{minor}; build it on Debian 12");
    Ok(())
}

/// Returns the certificates in the format of `update-ca-certificates`.
fn authorities(packages: &[Package]) -> anyhow::Result<Vec<u8>> {
    let package = packages.iter().find(|package| package.name == "ca-certificates");
    let package = package.context("ca-certificates is missing in packages.lock")?;
    let mut all = Vec::new();
    for (_, entry) in package.entries.iter().filter(|(path, _)| path.starts_with(AUTHORITIES_FROM)) {
        if let Entry::File { contents, .. } = entry {
            all.extend_from_slice(contents.trim_ascii_end());
            all.push(b'\n');
        }
    }
    ensure!(all.len() > 100_000, "the certificates of ca-certificates have only {} bytes", all.len());
    Ok(all)
}

/// Adds copyright files, and the files from which scanners identify the packages.
fn document(tools: &mut Tree, packages: &[Package]) -> anyhow::Result<()> {
    for package in packages {
        if let Some((path, text)) = package.copyright() {
            tools.file(&path, text)?;
        } else {
            let path = format!("usr/share/doc/{}", package.name);
            let Some(Entry::Link(to)) = package.entries.get(&path) else {
                anyhow::bail!("{} has no copyright file", package.name);
            };
            tools.add(&path, Node::Link(to.clone()))?;
        }
        tools.file(&format!("var/lib/dpkg/status.d/{}", package.name), package.control.clone())?;
    }
    Ok(())
}
