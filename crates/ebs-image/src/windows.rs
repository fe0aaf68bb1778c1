//! The images of Windows nodes: one layer with a program on a base image of Microsoft, for each version of Windows with
//! separate containers. The base is used by reference: its manifest and configuration are the input, and our manifest
//! names its layers by digest. None of their bytes is downloaded, stored or distributed. The output depends only on the
//! input and the time.

mod base;
mod layer;
mod security;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{bail, ensure};
use serde_json::{Value, json};

pub use base::Base;

use crate::contents::{NAME, What};
use crate::oci::{About, Compression, Image};
use crate::platform::Platform;
use crate::tree::{Node, Tree};

/// Our images for Windows nodes. Each has one program of its name in the root of drive C, where pods and host processes
/// start it.
pub const IMAGES: [What; 2] = [
    What { name: NAME, description: "Amazon EBS volumes by CSI: the node service for Windows" },
    What { name: "csi-node-driver-registrar", description: "Registers a CSI driver with the kubelet" },
];
/// The account that may open csi-proxy's pipes.
const USER: &str = "ContainerAdministrator";
/// Maximum size of our compressed layer in bytes.
const MOST_BYTES: u64 = 12_000_000;

/// A version of Windows Server with long-term support. Its containers run only on nodes of the same version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Release {
    Ltsc2019,
    Ltsc2022,
    Ltsc2025,
}

impl Release {
    /// All of them, oldest first.
    pub const ALL: [Self; 3] = [Self::Ltsc2019, Self::Ltsc2022, Self::Ltsc2025];

    /// Returns the name in tags of base images.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ltsc2019 => "ltsc2019",
            Self::Ltsc2022 => "ltsc2022",
            Self::Ltsc2025 => "ltsc2025",
        }
    }

    /// Returns the prefix of `os.version`.
    fn build(self) -> &'static str {
        match self {
            Self::Ltsc2019 => "10.0.17763.",
            Self::Ltsc2022 => "10.0.20348.",
            Self::Ltsc2025 => "10.0.26100.",
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Release {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match Self::ALL.into_iter().find(|release| release.name() == text) {
            Some(release) => Ok(release),
            None => bail!("unsupported version of Windows {text}; use ltsc2019, ltsc2022 or ltsc2025"),
        }
    }
}

/// Returns the image of a program, by its file name.
///
/// # Errors
/// No image has this program.
pub fn image_of(program: &Path) -> anyhow::Result<What> {
    let name = program.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let Some(what) = IMAGES.into_iter().find(|what| what.name == name) else {
        bail!("no image for {}; use {}.exe or {}.exe", program.display(), IMAGES[0].name, IMAGES[1].name)
    };
    Ok(what)
}

/// Returns the files of our layer, with their paths on drive C of the container.
///
/// # Errors
/// The program is not for Windows, or the name of a text is not a valid file name.
pub fn files(what: What, program: &[u8], texts: &[(String, Vec<u8>)]) -> anyhow::Result<Tree> {
    ensure!(program.starts_with(b"MZ"), "not a Windows program");
    let mut tree = Tree::default();
    tree.add(&format!("{}.exe", what.name), Node::File { contents: program.to_vec(), executable: true })?;
    for (name, text) in texts {
        tree.file(&format!("ProgramData/{}/{name}", what.name), text.clone())?;
    }
    Ok(tree)
}

/// Returns the image on one base.
///
/// # Errors
/// Our layer exceeds the size limit.
pub fn pack(base: &Base, files: &Tree, about: &About) -> anyhow::Result<Image> {
    let archive = layer::archive(files, about.epoch)?;
    let mut image = Image::begin(Platform::Amd64);
    let (digest, descriptor) = image.layer(archive, Compression::Gzip)?;
    let size = descriptor["size"].as_u64().unwrap_or(u64::MAX);
    ensure!(size <= MOST_BYTES, "the layer for {} has {size} bytes, at most {MOST_BYTES} are allowed", base.release());
    let ours = json!({ "created": about.created(), "created_by": format!("{}: program", about.what.name) });
    let mut config = base.config().clone();
    config["created"] = about.created().into();
    config["config"]["Entrypoint"] = json!([format!("/{}.exe", about.what.name)]);
    config["config"]["User"] = USER.into();
    config["config"]["WorkingDir"] = "C:\\".into();
    config["config"]["Labels"] = about.labels();
    if let Some(settings) = config["config"].as_object_mut() {
        // The base's own command would become arguments of our program.
        settings.remove("Cmd");
    }
    push(&mut config["rootfs"]["diff_ids"], digest.into());
    push(&mut config["history"], ours);
    let mut layers = base.layers().to_vec();
    layers.push(descriptor);
    let annotations = json!({
        "org.opencontainers.image.base.name": base.name(),
        "org.opencontainers.image.base.digest": base.digest(),
    });
    image.end(&config, layers, Some(annotations))?;
    Ok(image.for_windows(base.version()))
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}
