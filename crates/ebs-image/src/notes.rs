//! Release notes: the section of CHANGELOG.md, and the contents of the image.

use std::fmt::Write;

use anyhow::{Context, ensure};

use crate::contents::PROGRAMS;
use crate::oci::{About, Image};
use crate::package::Package;

/// Packages whose versions determine the properties of new file systems.
const FILE_SYSTEMS: [&str; 3] = ["e2fsprogs", "xfsprogs", "util-linux"];

/// Returns the notes of a version.
///
/// # Errors
/// The changelog has no section of it.
pub fn notes(changelog: &str, about: &About, images: &[&Image], packages: &[Package]) -> anyhow::Result<String> {
    let section = section(changelog, &about.version).or_else(|| section(changelog, "Unreleased"));
    let section = section.with_context(|| format!("CHANGELOG.md has no section {}", about.version))?;
    ensure!(!section.is_empty(), "CHANGELOG.md does not mention {}", about.version);
    let mut notes = format!("# {}\n\n{section}\n\n## Image\n\n", about.version);
    writeln!(notes, "`{}`:\n", about.reference())?;
    for image in images {
        let megabytes = image.size() / 100_000;
        let (whole, tenth) = (megabytes / 10, megabytes % 10);
        writeln!(notes, "- linux/{}: `{}`, {whole}.{tenth} MB compressed", image.platform, image.digest())?;
    }
    notes.push_str("\nFile-system tools, whose versions determine which kernels can mount new volumes:\n\n");
    for package in packages.iter().filter(|package| FILE_SYSTEMS.contains(&package.name.as_str())) {
        writeln!(notes, "- {} {} (Debian 12)", package.name, package.version)?;
    }
    let programs: Vec<&str> = PROGRAMS.iter().filter_map(|program| program.path.rsplit('/').next()).collect();
    writeln!(notes, "\nPrograms: {}.", programs.join(", "))?;
    Ok(notes)
}

/// Returns the text between the heading of a version and the next one.
pub(crate) fn section<'a>(changelog: &'a str, version: &str) -> Option<&'a str> {
    let heading = format!("\n## [{version}]");
    let from = changelog.find(&heading)? + heading.len();
    let rest = changelog[from..].split_once('\n').map_or("", |(_, rest)| rest);
    let end = rest.find("\n## [").or_else(|| rest.starts_with("## [").then_some(0));
    Some(rest[..end.unwrap_or(rest.len())].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str =
        "# Changelog\n\n## [Unreleased]\n\n## [1.1.0] - 2026-01-02\n\n### Added\n\n- This.\n\n## [1.0.0]\n- That.\n";

    #[test]
    fn changelog_section_ends_at_the_next_version() {
        assert_eq!(section(CHANGELOG, "1.1.0"), Some("### Added\n\n- This."));
        assert_eq!(section(CHANGELOG, "1.0.0"), Some("- That."));
        assert_eq!(section(CHANGELOG, "Unreleased"), Some(""));
        assert_eq!(section(CHANGELOG, "1.1"), None);
    }

    #[test]
    fn missing_changelog_section_is_an_error() {
        let about = |version: &str| About {
            what: crate::contents::DRIVER_IMAGE,
            version: version.to_owned(),
            commit: String::new(),
            epoch: 0,
        };
        assert!(notes(CHANGELOG, &about("9.9.9"), &[], &[]).is_err());
        assert!(notes(CHANGELOG, &about("1.1.0"), &[], &[]).unwrap().contains("- This."));
    }
}
