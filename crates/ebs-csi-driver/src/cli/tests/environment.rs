//! Checks that `docs/options.md` lists all environment variables that the process reads.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Variables that only test files read.
const OF_TESTS: [&str; 1] = ["EBS_WRITE_DOCS"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read_text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns a file's code up to its test module, without comment lines.
fn code_of(text: &str) -> String {
    let product = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    product.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Returns all source files except files that contain only tests.
fn product_files() -> Vec<PathBuf> {
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

/// Returns the string literals in the code that look like names of variables.
fn names_in(text: &str) -> BTreeSet<String> {
    const BEGINNINGS: [&str; 13] = [
        "AWS_",
        "EBS_",
        "CSI_",
        "OTEL_",
        "KUBERNETES_",
        "POD_",
        "NODE_",
        "DISABLE_",
        "CONTAINER_",
        "RUST_",
        "GODEBUG",
        "TMPDIR",
        "HOSTNAME",
    ];
    let code = code_of(text);
    let is_name = |literal: &&str| {
        literal.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
            && BEGINNINGS.iter().any(|beginning| literal.starts_with(beginning) && literal.len() >= beginning.len())
    };
    code.split('"').skip(1).step_by(2).filter(is_name).map(str::to_owned).collect()
}

#[test]
fn every_environment_variable_that_is_read_is_documented() {
    let documented = ebs_testkit::doc_table::names("docs/options.md", "variables");
    let mut read = BTreeSet::new();
    for path in product_files() {
        for name in names_in(&read_text(&path)) {
            let known = documented.contains(&name) || OF_TESTS.contains(&name.as_str());
            assert!(known, "{name}, in {}, is not in docs/options.md", path.display());
            read.insert(name);
        }
    }
    assert!(read.contains("AWS_REGION") && read.contains("RUST_LOG"), "the search finds nothing any more: {read:?}");
}
