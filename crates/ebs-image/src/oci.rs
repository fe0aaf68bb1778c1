//! An image by OCI's image specification 1.1, in an archive that containerd, podman, skopeo and crane read, and Docker
//! too if it is for one platform. Its bytes depend only on its files and the time.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use flate2::GzBuilder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::assemble::Files;
use crate::contents::{DRIVER, MOST_BYTES, PATH, What};
use crate::platform::Platform;
use crate::tree::Tree;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const COMPRESSED_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// The repository of a name without a registry in containerd.
const DEFAULT_REGISTRY: &str = "docker.io/library/";

/// The image's metadata.
#[derive(Debug, Clone)]
pub struct About {
    pub what: What,
    /// Without the `v` of the image's tag.
    pub version: String,
    /// The commit; empty if unknown.
    pub commit: String,
    /// The time of all files: seconds since 1970.
    pub epoch: u64,
}

impl About {
    /// Returns the image's name with its tag, as in the chart.
    pub fn reference(&self) -> String {
        format!("{}:v{}", self.what.name, self.version)
    }

    pub(crate) fn labels(&self) -> Value {
        json!({
            "org.opencontainers.image.title": self.what.name,
            "org.opencontainers.image.description": self.what.description,
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.version": self.version,
            "org.opencontainers.image.revision": self.commit,
            "org.opencontainers.image.created": self.created(),
        })
    }

    pub(crate) fn created(&self) -> String {
        time(self.epoch)
    }
}

/// Formats seconds since 1970 by RFC 3339.
pub(crate) fn time(epoch: u64) -> String {
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + Duration::from_secs(epoch)).to_string()
}

/// Whether layers are compressed. An image that only this machine runs need not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    Gzip,
    None,
}

/// The image of one platform.
#[derive(Debug)]
pub struct Image {
    pub platform: Platform,
    /// The version of Windows, whose containers run only on nodes of that version.
    windows: Option<String>,
    blobs: Blobs,
    manifest: Value,
    config: Value,
    layers: Vec<Value>,
}

impl Image {
    /// Packs the files.
    ///
    /// # Errors
    /// The compressed layers exceed the size limit.
    pub fn pack(platform: Platform, files: &Files, about: &About, compression: Compression) -> anyhow::Result<Self> {
        let mut image = Self::begin(platform);
        let (mut layers, mut digests, mut history) = (Vec::new(), Vec::new(), Vec::new());
        for (tree, what) in [(&files.tools, "file-system tools"), (&files.driver, "driver")] {
            let mut archive = Vec::new();
            tree.archive(&mut archive, about.epoch).with_context(|| format!("the layer of the {what}"))?;
            let (digest, layer) =
                image.layer(archive, compression).with_context(|| format!("the layer of the {what}"))?;
            digests.push(digest);
            layers.push(layer);
            history.push(json!({ "created": about.created(), "created_by": format!("{}: {what}", about.what.name) }));
        }
        let config = json!({
            "created": about.created(),
            "architecture": platform.name(),
            "os": "linux",
            "config": { "Env": [PATH], "Entrypoint": [DRIVER], "WorkingDir": "/", "Labels": about.labels() },
            "rootfs": { "type": "layers", "diff_ids": digests },
            "history": history,
        });
        image.end(&config, layers, None)?;
        let size = image.size();
        ensure!(
            compression == Compression::None || size <= MOST_BYTES,
            "the layers of {platform} have {size} bytes, at most {MOST_BYTES} are allowed"
        );
        Ok(image)
    }

    /// Creates an empty image.
    pub(crate) fn begin(platform: Platform) -> Self {
        let (manifest, config) = (Value::Null, Value::Null);
        Self { platform, windows: None, blobs: Blobs::default(), manifest, config, layers: Vec::new() }
    }

    /// Adds the archive of a layer. Returns the archive's digest and the layer's descriptor.
    pub(crate) fn layer(&mut self, archive: Vec<u8>, compression: Compression) -> anyhow::Result<(String, Value)> {
        let uncompressed = format!("sha256:{}", hex::encode(Sha256::digest(&archive)));
        let descriptor = match compression {
            Compression::None => self.blobs.add(LAYER, archive),
            Compression::Gzip => self.blobs.add(COMPRESSED_LAYER, gzip(&archive)?),
        };
        Ok((uncompressed, descriptor))
    }

    /// Adds configuration and manifest. Layers that are not blobs of this image are in another registry.
    pub(crate) fn end(&mut self, config: &Value, layers: Vec<Value>, annotations: Option<Value>) -> anyhow::Result<()> {
        self.config = self.blobs.add(CONFIG, serde_json::to_vec(config)?);
        let mut manifest =
            json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": self.config, "layers": layers });
        if let Some(annotations) = annotations {
            manifest["annotations"] = annotations;
        }
        self.manifest = self.blobs.add(MANIFEST, serde_json::to_vec(&manifest)?);
        self.layers = layers;
        Ok(())
    }

    /// Sets the version of Windows.
    pub(crate) fn for_windows(self, version: &str) -> Self {
        Self { windows: Some(version.to_owned()), ..self }
    }

    /// Returns its digest, like `sha256:…`.
    pub fn digest(&self) -> &str {
        self.manifest["digest"].as_str().unwrap_or_default()
    }

    /// Returns the transferred size of all layers in bytes.
    pub fn size(&self) -> u64 {
        self.layers.iter().filter_map(|layer| layer["size"].as_u64()).sum()
    }

    /// Returns the additional file of `docker load`.
    fn docker_manifest(&self, reference: &str) -> Value {
        let layers: Vec<String> = self.layers.iter().map(blob_path).collect();
        json!([{ "Config": blob_path(&self.config), "RepoTags": [reference], "Layers": layers }])
    }

    fn descriptor(&self) -> Value {
        let mut descriptor = self.manifest.clone();
        descriptor["platform"] = match &self.windows {
            None => json!({ "architecture": self.platform.name(), "os": "linux" }),
            Some(version) => {
                json!({ "architecture": self.platform.name(), "os": "windows", "os.version": version })
            }
        };
        descriptor
    }
}

/// Writes the images of several platforms with one name, or one image, as an archive.
///
/// # Errors
/// It cannot be written.
pub fn write(images: &[&Image], about: &About, to: &Path) -> anyhow::Result<()> {
    let mut tree = Tree::default();
    let mut blobs = Blobs::default();
    images.iter().for_each(|image| blobs.0.extend(image.blobs.0.clone()));
    let mut top = match images {
        // Docker's archive format does not support layers in another registry.
        [one] if one.windows.is_none() => {
            tree.file("manifest.json", serde_json::to_vec(&one.docker_manifest(&about.reference()))?)?;
            one.descriptor()
        }
        several => {
            let all: Vec<Value> = several.iter().map(|image| image.descriptor()).collect();
            let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": all });
            blobs.add(INDEX, serde_json::to_vec(&index)?)
        }
    };
    top["annotations"] = json!({
        "io.containerd.image.name": format!("{DEFAULT_REGISTRY}{}", about.reference()),
        "org.opencontainers.image.ref.name": format!("v{}", about.version),
    });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [top] });
    tree.file("index.json", serde_json::to_vec(&index)?)?;
    tree.file("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    for (digest, bytes) in blobs.0 {
        tree.file(&format!("blobs/sha256/{digest}"), bytes)?;
    }
    let file = std::fs::File::create(to).with_context(|| format!("make {}", to.display()))?;
    tree.archive(std::io::BufWriter::new(file), about.epoch).with_context(|| format!("write {}", to.display()))
}

/// Blobs by the hexadecimal digits of their digests.
#[derive(Debug, Default)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    /// Adds a blob and returns its descriptor.
    fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = hex::encode(Sha256::digest(&bytes));
        let descriptor = json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len() });
        self.0.insert(digest, bytes);
        descriptor
    }
}

fn blob_path(descriptor: &Value) -> String {
    format!("blobs/{}", descriptor["digest"].as_str().unwrap_or_default().replacen(':', "/", 1))
}

/// Compresses with the maximum level, without a name or a time.
///
/// # Errors
/// Never in memory, but the writer's type requires it.
pub(crate) fn gzip(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut to = GzBuilder::new().write(Vec::new(), flate2::Compression::best());
    to.write_all(bytes).context("compress")?;
    to.finish().context("compress")
}
