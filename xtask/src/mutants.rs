//! `cargo xtask mutants`: which mutants survived, beside the list of those that may (`.cargo/mutants-harmless.txt`).
//!
//! A mutant is known by its file and its change, not by its line, so that the list outlives edits above it. The same change
//! twice in a file needs two lines.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};

const LIST: &str = ".cargo/mutants-harmless.txt";

/// What it is told.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct MutantsArgs {
    /// All mutants were tried: lines of the list whose mutant did not survive are complained of
    #[arg(long, conflicts_with = "part")]
    whole: bool,

    /// Some mutants were tried
    #[arg(long)]
    part: bool,

    /// Directories named mutants.out
    #[arg(required = true, value_name = "DIR")]
    results: Vec<PathBuf>,
}

/// Prints the survivors that the list does not explain, and fails when there are any.
///
/// # Errors
/// When the list or the results cannot be read, or a line of the list has no reason.
pub(crate) fn run(args: &MutantsArgs) -> anyhow::Result<ExitCode> {
    let list = fs::read_to_string(LIST).with_context(|| format!("read {LIST}"))?;
    let mut survivors = Vec::new();
    let mut caught = 0;
    for dir in &args.results {
        let read = |name: &str| {
            let path = dir.join(name);
            match fs::read_to_string(&path) {
                Ok(text) => Ok(text.lines().map(str::to_owned).collect::<Vec<_>>()),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
                Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
            }
        };
        caught += read("caught.txt")?.len() + read("previously_caught.txt")?.len();
        // A mutant that hangs makes its test fail by the bound; nobody has shown that it is caught.
        survivors.extend(read("missed.txt")?.into_iter().chain(read("timeout.txt")?));
    }
    if caught == 0 {
        bail!("the results name no mutant that was caught: nothing was tested");
    }
    let verdict = Verdict::of(&survivors, &list)?;
    let stale = if args.whole { verdict.stale.as_slice() } else { &[] };
    let mut text = format!("{caught} mutants caught, {} survived and are explained\n", verdict.explained);
    for survivor in &verdict.unexplained {
        text.push_str(&format!("survived, and {LIST} does not say why that is harmless: {survivor}\n"));
    }
    for line in stale {
        text.push_str(&format!("{LIST} explains what did not survive: {line}\n"));
    }
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(if verdict.unexplained.is_empty() && stale.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    /// As cargo-mutants names them.
    unexplained: Vec<String>,
    explained: usize,
    /// Mutants of the list that are not among the survivors.
    stale: Vec<String>,
}

impl Verdict {
    /// Survivors as cargo-mutants names them, and the text of the list.
    ///
    /// # Errors
    /// A line of the list without a reason.
    fn of(survivors: &[String], list: &str) -> anyhow::Result<Self> {
        let mut harmless: BTreeMap<&str, usize> = BTreeMap::new();
        for line in list.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            let (mutant, why) = line.split_once(" | ").with_context(|| format!("{LIST}: no reason in: {line}"))?;
            if why.trim().is_empty() {
                bail!("{LIST}: no reason in: {line}");
            }
            *harmless.entry(mutant.trim()).or_default() += 1;
        }
        let mut verdict = Self::default();
        for survivor in survivors {
            match harmless.get_mut(without_line(survivor).as_str()) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    verdict.explained += 1;
                }
                _ => verdict.unexplained.push(survivor.clone()),
            }
        }
        let left = harmless.into_iter().flat_map(|(mutant, left)| std::iter::repeat_n(mutant.to_owned(), left));
        verdict.stale = left.collect();
        Ok(verdict)
    }
}

/// `file:line:column: change` as `file: change`.
fn without_line(mutant: &str) -> String {
    let Some((place, change)) = mutant.split_once(": ") else { return mutant.to_owned() };
    let file = place.split(':').next().unwrap_or(place);
    format!("{file}: {change}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SURVIVORS: [&str; 2] = ["src/a.rs:7:3: replace f -> bool with true", "src/a.rs:90:3: replace + with -"];

    fn verdict(list: &str) -> Verdict {
        Verdict::of(&SURVIVORS.map(str::to_owned), list).expect("a list with reasons")
    }

    /// A surviving mutant fails `make mutants` unless a line says why it is harmless, wherever in the file it stands.
    #[test]
    fn a_survivor_needs_a_line_with_its_reason() {
        let found = verdict("# why\n\nsrc/a.rs: replace + with - | the sum is never read\n");
        assert_eq!(found.unexplained, [SURVIVORS[0]]);
        assert_eq!((found.explained, found.stale.len()), (1, 0));
        assert!(Verdict::of(&[], "src/a.rs: replace + with -\n").is_err(), "a line without a reason");
        assert!(Verdict::of(&[], "src/a.rs: replace + with - | \n").is_err(), "an empty reason");
    }

    /// One line explains one survivor, and a line whose mutant is caught is found.
    #[test]
    fn one_line_explains_one_survivor_and_stale_lines_are_found() {
        let twice = "src/a.rs: replace + with - | a\nsrc/a.rs: replace + with - | b\nsrc/b.rs: replace g | c\n";
        assert_eq!(verdict(twice).stale, ["src/a.rs: replace + with -", "src/b.rs: replace g"]);
        let same = [SURVIVORS[1].to_owned(), SURVIVORS[1].replace("90", "91")];
        let found = Verdict::of(&same, "src/a.rs: replace + with - | a\n").expect("a list");
        assert_eq!((found.explained, found.unexplained.len()), (1, 1));
    }
}
