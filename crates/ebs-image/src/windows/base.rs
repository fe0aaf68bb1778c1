//! A base image by reference, from its manifest and configuration in a registry.

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Release;

/// Media types of the layers of base images: Docker's and the equivalent of OCI. Registries do not distribute a foreign
/// layer; its descriptor has the URLs.
const LAYERS: [(&str, &str); 5] = [
    ("application/vnd.docker.image.rootfs.diff.tar.gzip", DISTRIBUTABLE),
    ("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", FOREIGN),
    (DISTRIBUTABLE, DISTRIBUTABLE),
    ("application/vnd.oci.image.layer.v1.tar+zstd", "application/vnd.oci.image.layer.v1.tar+zstd"),
    (FOREIGN, FOREIGN),
];
const DISTRIBUTABLE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const FOREIGN: &str = "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip";

/// A base image of Microsoft for one version of Windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Base {
    release: Release,
    digest: String,
    version: String,
    config: Value,
    layers: Vec<Value>,
}

impl Base {
    /// Parses the bytes of its manifest and configuration, as the registry has them.
    ///
    /// # Errors
    /// They do not belong together, or are of another system, machine or version of Windows.
    pub fn read(release: Release, manifest: &[u8], config: &[u8]) -> anyhow::Result<Self> {
        let named = |what: &str| format!("the {what} of the base for {release}");
        let digest = digest_of(manifest);
        let manifest: Value = serde_json::from_slice(manifest).with_context(|| named("manifest"))?;
        let said = manifest["config"]["digest"].as_str().unwrap_or_default();
        ensure!(said == digest_of(config), "{} references another configuration, {said:?}", named("manifest"));
        let config: Value = serde_json::from_slice(config).with_context(|| named("configuration"))?;
        let (system, machine) = (config["os"].as_str(), config["architecture"].as_str());
        ensure!(
            system == Some("windows") && machine == Some("amd64"),
            "the base for {release} is for {} on {}",
            system.unwrap_or("nothing"),
            machine.unwrap_or("nothing")
        );
        let version = config["os.version"].as_str().unwrap_or_default().to_owned();
        ensure!(
            version.starts_with(release.build()),
            "the base for {release} has os.version {version:?} instead of {}N",
            release.build()
        );
        let layers = manifest["layers"].as_array().with_context(|| format!("{} has no layers", named("manifest")))?;
        let layers: Vec<Value> =
            layers.iter().map(layer).collect::<anyhow::Result<_>>().with_context(|| named("manifest"))?;
        let unpacked = config["rootfs"]["diff_ids"].as_array().map_or(0, Vec::len);
        ensure!(
            !layers.is_empty() && layers.len() == unpacked,
            "the base for {release} has {} layers in its manifest and {unpacked} in its configuration",
            layers.len()
        );
        Ok(Self { release, digest, version, config, layers })
    }

    /// Returns its version of Windows.
    pub fn release(&self) -> Release {
        self.release
    }

    /// Returns its version as in OCI's platforms, like `10.0.20348.3932`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns its name for a pull.
    pub(super) fn name(&self) -> String {
        format!("mcr.microsoft.com/windows/nanoserver:{}", self.release)
    }

    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    pub(super) fn config(&self) -> &Value {
        &self.config
    }

    pub(super) fn layers(&self) -> &[Value] {
        &self.layers
    }
}

fn digest_of(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Converts the descriptor of a layer to OCI's media type.
fn layer(descriptor: &Value) -> anyhow::Result<Value> {
    let kind = descriptor["mediaType"].as_str().unwrap_or_default();
    let Some((_, ours)) = LAYERS.iter().find(|(theirs, _)| *theirs == kind) else {
        bail!("unknown kind of layer {kind:?}")
    };
    let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:")).unwrap_or_default();
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    ensure!(is_digest && descriptor["size"].as_u64().is_some_and(|size| size > 0), "{descriptor} is not a descriptor");
    let has_urls = descriptor["urls"].as_array().is_some_and(|urls| !urls.is_empty());
    ensure!(*ours != FOREIGN || has_urls, "the foreign layer {digest} has no URLs");
    let mut layer = descriptor.clone();
    layer["mediaType"] = (*ours).into();
    Ok(layer)
}
