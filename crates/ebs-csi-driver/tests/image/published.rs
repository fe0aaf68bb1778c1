//! Checks how a release is published: by the workflows, and against a registry of this machine.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use ebs_testkit::run_dir::OwnDir;

use super::reproducible::driver;
use super::{location, repository, rust_image, script};

/// Packs a release and publishes it to a local registry. The script compares what the registry then has, and checks that it
/// refuses other content under the same version, another registry and a changed file.
#[tokio::test]
async fn rehearsal_of_a_release_passes() -> anyhow::Result<()> {
    let place = OwnDir::new("rehearsal-")?;
    let (driver, _) = driver(place.path()).await?;
    let output = script("deploy/release/dry-run", &["--fast", &driver]).await?;
    ensure!(output.contains(&format!("the rehearsal of {} passed", env!("CARGO_PKG_VERSION"))), "{output}");
    Ok(())
}

/// What a workflow runs must also run on other machines. zizmor checks that actions and images are pinned (`scripts/lint`).
#[test]
fn workflows_run_make_targets_with_the_pinned_compiler() -> anyhow::Result<()> {
    let makefile = std::fs::read_to_string(repository().join("Makefile"))?;
    let targets: BTreeSet<&str> =
        makefile.lines().filter_map(|line| line.split_once(": ")?.0.split(' ').next()).collect();
    let mut steps = 0;
    for entry in std::fs::read_dir(repository().join(".github/workflows"))? {
        let path = entry?.path();
        let text = std::fs::read_to_string(&path)?;
        for line in text.lines().map(|line| line.trim_start().trim_start_matches("- ")) {
            let place = format!("{}: {line}", path.display());
            if let Some(command) = line.strip_prefix("run:") {
                let target = command.trim().strip_prefix("make ").with_context(|| place.clone())?;
                ensure!(targets.contains(target), "{place}: not a target of the Makefile");
                steps += 1;
            } else if let Some(image) = line.strip_prefix("image: ") {
                ensure!(image.starts_with(&format!("{}@", rust_image()?)), "{place}");
            }
        }
    }
    ensure!(steps >= 6, "only {steps} steps found");
    Ok(())
}

#[test]
fn codeowners_names_the_owner_of_the_repository() -> anyhow::Result<()> {
    let (_, path) = location()?;
    let text = std::fs::read_to_string(repository().join(".github/CODEOWNERS"))?;
    let team =
        text.lines().find_map(|line| line.strip_prefix("* @")?.split('/').next()).context("a rule for all files")?;
    ensure!(path.starts_with(&format!("{team}/")), "CODEOWNERS names {team}, and Cargo.toml names {path}");
    Ok(())
}
