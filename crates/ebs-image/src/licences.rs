//! The licences of the crates in the driver: each text once, with the names of its crates.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::Context;

use crate::crates::Crate;

/// Prefixes of the names of licence and notice files.
const NAMES: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];
const RULE: &str = "--------------------------------------------------------------------------------\n";

/// Returns the text of `THIRD-PARTY-LICENSES`.
///
/// # Errors
/// The sources of a crate cannot be read.
pub fn text(crates: &[Crate]) -> anyhow::Result<String> {
    let mut text = "Crates in aws-ebs-csi-driver, with their licences:\n\n".to_owned();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in crates {
        let title = format!("{} {}", one.name, one.version);
        writeln!(text, "{title}: {}", one.licence)?;
        for found in found(&one.directory).with_context(|| format!("the licence of {title}"))? {
            let whose = texts.entry(found).or_default();
            if !whose.contains(&title) {
                whose.push(title.clone());
            }
        }
    }
    text.push_str(
        "\nThe Rust standard library: MIT OR Apache-2.0, https://github.com/rust-lang/rust/blob/master/COPYRIGHT\n",
    );
    let mut sorted: Vec<(&Vec<String>, &String)> = texts.iter().map(|(text, whose)| (whose, text)).collect();
    sorted.sort();
    for (whose, found) in sorted {
        write!(text, "\n{RULE}{}:\n\n{found}\n", whose.join(", "))?;
    }
    Ok(text)
}

/// Returns the texts without blanks at the ends of lines, so that texts that differ only in these are equal.
fn found(directory: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).context("its directory")? {
        let entry = entry.context("its directory")?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let is_text = NAMES.iter().any(|begin| name.starts_with(begin)) && !name.ends_with(".rs");
        if is_text && entry.file_type().context("its directory")?.is_file() {
            names.push(entry.path());
        }
    }
    names.sort();
    let mut texts = Vec::new();
    for path in names {
        let bytes = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        texts.push(lines.join("\n").trim_matches('\n').to_owned());
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_text_of_two_crates_appears_once() {
        let directory = tempfile::tempdir().unwrap();
        let one = |name: &str, text: &str| {
            let at = directory.path().join(name);
            std::fs::create_dir(&at).unwrap();
            std::fs::write(at.join("LICENSE-MIT"), text).unwrap();
            std::fs::write(at.join("license.rs"), "code").unwrap();
            let (name, version) = (name.to_owned(), "1.0.0".to_owned());
            Crate { name, version, licence: "MIT".to_owned(), sha256: None, directory: at }
        };
        let text = text(&[one("a", "Take it.\n"), one("b", "Take it. \n\n"), one("c", "Take that.")]).unwrap();
        assert_eq!(text.matches("Take it.").count(), 1, "{text}");
        assert!(text.contains("a 1.0.0, b 1.0.0:\n\nTake it.\n"), "{text}");
        assert!(text.contains("c 1.0.0:\n\nTake that.\n") && !text.contains("code"), "{text}");
    }
}
