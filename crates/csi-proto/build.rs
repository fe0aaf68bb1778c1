//! Compiles the protocol files at the root of the repository without protoc.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const PROTOS: [&str; 3] = ["csi.proto", "modify.proto", "registration.proto"];

/// The name of each field that CSI marks as secret.
const SECRETS: &str = "secrets";

fn main() -> Result<(), Box<dyn Error>> {
    let directory = "../../proto";
    for proto in PROTOS {
        println!("cargo::rerun-if-changed={directory}/{proto}");
    }
    let descriptors = protox::compile(PROTOS, [directory])?;
    let mut builder = tonic_prost_build::configure();
    let mut shown = String::new();
    let csi = descriptors.file.iter().filter(|file| file.package() == "csi.v1");
    for message in csi.flat_map(|file| &file.message_type) {
        let fields: Vec<&str> = message.field.iter().map(|field| field.name()).collect();
        if fields.contains(&SECRETS) {
            builder = builder.skip_debug([format!(".csi.v1.{}", message.name())]);
            shown += &debug_without_secrets(message.name(), &fields)?;
        }
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    std::fs::write(out.join("without_secrets.rs"), shown)?;
    builder.compile_fds(descriptors)?;
    if std::env::var_os("CARGO_FEATURE_CSI_PROXY").is_some() { csi_proxy(&out) } else { Ok(()) }
}

/// Each csi-proxy group and its versions, as in `Group::versions`. A test compares both lists with the protocol files.
/// `contents` is this project's addition, which is served on the pipe of disk/v1.
const GROUPS: [(&str, &str); 7] = [
    ("disk", "v1alpha1 v1beta1 v1beta2 v1beta3 v1"),
    ("volume", "v1alpha1 v1beta1 v1beta2 v1beta3 v1 v2alpha1"),
    ("filesystem", "v1alpha1 v1beta1 v1beta2 v1 v2alpha1"),
    ("smb", "v1alpha1 v1beta1 v1beta2 v1"),
    ("iscsi", "v1alpha1 v1alpha2"),
    ("system", "v1alpha1"),
    ("contents", "v1"),
];

/// csi-proxy's messages that have fields which must not be logged, and these fields.
const HIDDEN: [(&str, &str); 3] = [
    ("NewSmbGlobalMappingRequest", "password"),
    ("ConnectTargetRequest", "chap_secret"),
    ("SetMutualChapSecretRequest", "MutualChapSecret"),
];

/// Compiles each file separately, because the packages of different groups have equal names.
fn csi_proxy(out: &Path) -> Result<(), Box<dyn Error>> {
    let directory = "../../proto/csi-proxy";
    println!("cargo::rerun-if-changed={directory}");
    for (group, versions) in GROUPS {
        for version in versions.split(' ') {
            let descriptors = protox::compile([format!("{group}/{version}.proto")], [directory])?;
            let out = out.join(group).join(version);
            std::fs::create_dir_all(&out)?;
            let mut code = tonic_prost_build::configure()
                .out_dir(out)
                .message_attribute(".", "#[derive(::serde::Serialize)]")
                .skip_debug(HIDDEN.map(|(message, _)| format!(".{version}.{message}")));
            for (message, field) in HIDDEN {
                let attribute = "#[serde(serialize_with = \"crate::csi_proxy::secret::hidden\")]";
                code = code.field_attribute(format!(".{version}.{message}.{field}"), attribute);
            }
            code.compile_fds(descriptors)?;
        }
    }
    Ok(())
}

/// Returns a `Debug` implementation for a message. It shows all fields, but hides the values of the secret ones.
fn debug_without_secrets(message: &str, fields: &[&str]) -> Result<String, std::fmt::Error> {
    let mut code = format!("impl ::core::fmt::Debug for {message} {{\n");
    code += "    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {\n";
    writeln!(code, "        f.debug_struct({message:?})")?;
    for field in fields {
        match *field {
            SECRETS => writeln!(code, "            .field({field:?}, &super::NotShown(self.{field}.len()))")?,
            _ => writeln!(code, "            .field({field:?}, &self.{field})")?,
        }
    }
    code += "            .finish()\n    }\n}\n";
    Ok(code)
}
