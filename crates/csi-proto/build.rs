//! Compiles the protocol files at the root of the repository without protoc.

use std::error::Error;

const PROTOS: [&str; 3] = ["csi.proto", "modify.proto", "registration.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    let directory = "../../proto";
    for proto in PROTOS {
        println!("cargo::rerun-if-changed={directory}/{proto}");
    }
    let descriptors = protox::compile(PROTOS, [directory])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
