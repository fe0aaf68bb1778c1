//! The source files of the product, for tests that check all of them.

use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the code before the tests of a file, without comment lines.
pub(super) fn code_of(text: &str) -> String {
    let product = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    product.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Returns all source files except files that contain only tests.
pub(super) fn product_files() -> Vec<PathBuf> {
    let parts = ["ebs-aws", "ebs-cloud", "ebs-csi-driver", "ebs-driver", "ebs-kubernetes", "ebs-metadata"];
    let others = ["ebs-mounter", "ebs-telemetry", "ebs-ec2", "grpc-authority"];
    let mut directories: Vec<PathBuf> =
        parts.iter().chain(&others).map(|part| repository().join("crates").join(part).join("src")).collect();
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display())) {
            let path = entry.expect("an entry").path();
            let is_tests =
                path.file_stem().is_some_and(|stem| stem == "fuzz" || stem.to_string_lossy().ends_with("tests"));
            match (path.is_dir(), is_tests) {
                (_, true) => {}
                (true, false) => directories.push(path),
                (false, false) => files.extend(path.extension().is_some_and(|end| end == "rs").then_some(path)),
            }
        }
    }
    files
}
