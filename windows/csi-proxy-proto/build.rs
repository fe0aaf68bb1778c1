//! Compiles each file below `proto/csi-proxy` separately and without protoc: their packages have equal names.

use std::error::Error;
use std::path::Path;

/// The same as `SERVED` in src/served.rs. A test compares them with the files.
const SERVED: [(&str, &[&str]); 6] = [
    ("disk", &["v1alpha1", "v1beta1", "v1beta2", "v1beta3", "v1"]),
    ("volume", &["v1alpha1", "v1beta1", "v1beta2", "v1beta3", "v1", "v2alpha1"]),
    ("filesystem", &["v1alpha1", "v1beta1", "v1beta2", "v1", "v2alpha1"]),
    ("smb", &["v1alpha1", "v1beta1", "v1beta2", "v1"]),
    ("iscsi", &["v1alpha1", "v1alpha2"]),
    ("system", &["v1alpha1"]),
];

/// Messages with their fields that must not be logged.
const SECRETS: [(&str, &str); 3] = [
    ("NewSmbGlobalMappingRequest", "password"),
    ("ConnectTargetRequest", "chap_secret"),
    ("SetMutualChapSecretRequest", "MutualChapSecret"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let directory = "../../proto/csi-proxy";
    println!("cargo::rerun-if-changed={directory}");
    let out = std::env::var("OUT_DIR")?;
    for (group, versions) in SERVED {
        for version in versions {
            let descriptors = protox::compile([format!("{group}/{version}.proto")], [directory])?;
            let out = Path::new(&out).join(group).join(version);
            std::fs::create_dir_all(&out)?;
            let mut code = tonic_prost_build::configure()
                .out_dir(out)
                .message_attribute(".", "#[derive(::serde::Serialize)]")
                .skip_debug(SECRETS.map(|(message, _)| format!(".{version}.{message}")));
            for (message, field) in SECRETS {
                let attribute = "#[serde(serialize_with = \"crate::secret::hidden\")]";
                code = code.field_attribute(format!(".{version}.{message}.{field}"), attribute);
            }
            code.compile_fds(descriptors)?;
        }
    }
    contents(directory, Path::new(&out))
}

/// This project's addition, which is not a group: it is served on the pipe of disk/v1.
fn contents(directory: &str, out: &Path) -> Result<(), Box<dyn Error>> {
    let descriptors = protox::compile(["contents/v1.proto"], [directory])?;
    let out = out.join("contents/v1");
    std::fs::create_dir_all(&out)?;
    let code = tonic_prost_build::configure().out_dir(out).message_attribute(".", "#[derive(::serde::Serialize)]");
    Ok(code.compile_fds(descriptors)?)
}
