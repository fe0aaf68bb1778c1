//! Compiles the protocol files at the root of the repository without protoc.

use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;

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
    Ok(())
}

/// Returns a `Debug` implementation that shows all fields of a message except the values of its secrets.
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
