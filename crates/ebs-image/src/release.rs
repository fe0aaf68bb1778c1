//! A release: everything that users download, in one directory, with checksums. The same inputs give the same bytes.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

use crate::assemble::{Files, Texts, files};
use crate::child;
use crate::contents::NAME;
use crate::lock::{Pinned, packages};
use crate::notes::notes;
use crate::oci::{About, Compression, Image, gzip, write};
use crate::package::Package;
use crate::platform::Platform;
use crate::tree::{Node, Tree};
use crate::{crates, licences, spdx};

/// The inputs of a release.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// The repository.
    pub root: PathBuf,
    /// The directory with a subdirectory of packages for each platform.
    pub packages: PathBuf,
    pub pinned: Pinned,
    /// Driver programs; at most one for each platform.
    pub drivers: Vec<(Platform, PathBuf)>,
    pub about: About,
}

/// The results for one platform.
pub struct Parts {
    pub platform: Platform,
    pub packages: Vec<Package>,
    pub files: Files,
    driver: Vec<u8>,
    texts: Texts,
    bill: Vec<u8>,
}

impl Inputs {
    /// Assembles the files of each platform.
    ///
    /// # Errors
    /// Something is missing or does not fit.
    pub async fn parts(&self) -> anyhow::Result<Vec<Parts>> {
        ensure!(!self.drivers.is_empty(), "--driver is missing");
        let mut parts = Vec::new();
        for (platform, driver) in &self.drivers {
            let part = self.part(*platform, driver).await;
            parts.push(part.with_context(|| format!("the image for {platform}"))?);
        }
        parts.sort_by_key(|part| part.platform);
        Ok(parts)
    }

    async fn part(&self, platform: Platform, driver: &Path) -> anyhow::Result<Parts> {
        let packages = packages(&self.packages.join(platform.name()), platform, self.pinned).await?;
        let driver = std::fs::read(driver).with_context(|| format!("read {}", driver.display()))?;
        let crates = crates::linked(&self.root, platform).await?;
        let bill = spdx::document(platform, &self.about, &packages, &crates, &self.rust()?)?;
        let own = |name: &str| std::fs::read(self.root.join(name)).with_context(|| format!("read {name}"));
        let mut texts = vec![
            ("LICENSE".to_owned(), own("LICENSE")?),
            ("NOTICE".to_owned(), own("NOTICE")?),
            ("THIRD-PARTY-LICENSES".to_owned(), licences::text(&crates)?.into_bytes()),
        ];
        let archive_texts = texts.clone();
        texts.push((format!("{NAME}.spdx.json"), bill.clone()));
        let files = files(platform, &packages, &driver, &texts)?;
        Ok(Parts { platform, packages, files, driver, texts: archive_texts, bill })
    }

    /// Returns the compiler's version.
    fn rust(&self) -> anyhow::Result<String> {
        let text =
            std::fs::read_to_string(self.root.join("rust-toolchain.toml")).context("read rust-toolchain.toml")?;
        let channel = text.lines().find_map(|line| line.strip_prefix("channel = \"")?.strip_suffix('"'));
        Ok(channel.context("channel is missing in rust-toolchain.toml")?.to_owned())
    }

    /// Writes the whole release into a new directory, and returns the names of its files.
    ///
    /// # Errors
    /// Something is missing, does not fit or cannot be written.
    pub async fn release(&self, helm: &str, to: &Path) -> anyhow::Result<Vec<String>> {
        let mut out = Output::new(to)?;
        let parts = self.parts().await?;
        let version = &self.about.version;
        let mut images = Vec::new();
        for part in &parts {
            let platform = part.platform;
            out.file(&format!("{NAME}-{version}-linux-{platform}.tar.gz"), &part.archive(&self.about)?)?;
            out.file(&format!("{NAME}-{version}-{platform}.spdx.json"), &part.bill)?;
            let image = Image::pack(platform, &part.files, &self.about, Compression::Gzip)?;
            let name = format!("{NAME}-{version}-image-{platform}.tar");
            write(&[&image], &self.about, &out.directory.join(&name))?;
            out.note(&name)?;
            images.push(image);
        }
        let images: Vec<&Image> = images.iter().collect();
        if images.len() > 1 {
            let name = format!("{NAME}-{version}-image.tar");
            write(&images, &self.about, &out.directory.join(&name))?;
            out.note(&name)?;
        }
        let chart = self.root.join("charts").join(NAME);
        out.file(&format!("{NAME}-{version}.tgz"), &chart_package(helm, &chart, &self.about).await?)?;
        let changelog = std::fs::read_to_string(self.root.join("CHANGELOG.md")).context("read CHANGELOG.md")?;
        let packages = parts.first().map_or(&[][..], |part| &part.packages);
        out.file("RELEASE-NOTES.md", notes(&changelog, &self.about, &images, packages)?.as_bytes())?;
        out.sums()
    }
}

impl Parts {
    /// Returns the archive of the program with its licences, for use without a container.
    fn archive(&self, about: &About) -> anyhow::Result<Vec<u8>> {
        let mut tree = Tree::default();
        let top = format!("{NAME}-{}-linux-{}", about.version, self.platform);
        tree.add(&format!("{top}/{NAME}"), Node::File { contents: self.driver.clone(), executable: true })?;
        for (name, text) in &self.texts {
            tree.file(&format!("{top}/{name}"), text.clone())?;
        }
        let mut bytes = Vec::new();
        tree.archive(&mut bytes, about.epoch)?;
        gzip(&bytes)
    }
}

/// Returns Helm's package of the chart, with one time for all of its files.
async fn chart_package(helm: &str, chart: &Path, about: &About) -> anyhow::Result<Vec<u8>> {
    let scratch = tempfile::tempdir().context("a directory for the chart")?;
    let args: [&OsStr; 4] =
        ["package".as_ref(), chart.as_os_str(), "--destination".as_ref(), scratch.path().as_os_str()];
    child::output(helm, &args).await.context("package the chart")?;
    let name = format!("{NAME}-{}.tgz", about.version);
    let made = std::fs::read(scratch.path().join(&name));
    let made = made.with_context(|| format!("the chart does not have version {}: {name} not found", about.version))?;
    let mut bytes = Vec::new();
    let mut unpacked = tar::Archive::new(GzDecoder::new(made.as_slice()));
    let mut tree = Tree::default();
    for entry in unpacked.entries().context("the chart's package")? {
        let mut entry = entry.context("the chart's package")?;
        let path = entry.path().context("the chart's package")?.to_str().context("a path")?.to_owned();
        bytes.clear();
        entry.read_to_end(&mut bytes).context("the chart's package")?;
        tree.file(&path, bytes.clone())?;
    }
    let mut packed = Vec::new();
    tree.archive(&mut packed, about.epoch)?;
    gzip(&packed)
}

/// The output directory.
struct Output {
    directory: PathBuf,
    /// Digest and name of each file.
    files: Vec<(String, String)>,
}

impl Output {
    fn new(directory: &Path) -> anyhow::Result<Self> {
        let named = || format!("recreate {}", directory.display());
        if directory.exists() {
            // Nothing is removed from a directory that is not a release.
            let is_release =
                directory.join(SUMS).is_file() || directory.read_dir().with_context(named)?.next().is_none();
            ensure!(is_release, "{} has files that are not from a release", directory.display());
            std::fs::remove_dir_all(directory).with_context(named)?;
        }
        std::fs::create_dir_all(directory).with_context(named)?;
        Ok(Self { directory: directory.to_owned(), files: Vec::new() })
    }

    fn file(&mut self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.directory.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
        self.note(name)
    }

    /// Adds an existing file to the checksums.
    fn note(&mut self, name: &str) -> anyhow::Result<()> {
        let bytes = std::fs::read(self.directory.join(name)).with_context(|| format!("read {name}"))?;
        self.files.push((hex::encode(Sha256::digest(&bytes)), name.to_owned()));
        Ok(())
    }

    /// Writes the checksums in the format of `sha256sum --check`.
    fn sums(mut self) -> anyhow::Result<Vec<String>> {
        self.files.sort_by(|one, other| one.1.cmp(&other.1));
        let lines = self.files.iter().map(|(digest, name)| format!("{digest}  {name}\n"));
        std::fs::write(self.directory.join(SUMS), lines.collect::<String>()).context("write the checksums")?;
        Ok(self.files.into_iter().map(|(_, name)| name).chain([SUMS.to_owned()]).collect())
    }
}

const SUMS: &str = "SHA256SUMS";
