//! The test cases in `cases.txt` and `corpus/`. The top of `cases.txt` describes its format.
//!
//! A file of `corpus/` has the values of one deployment. Its lines that begin with `#: ` are as in `cases.txt`.

use std::path::Path;

use anyhow::{Context, bail};

use crate::objects::Check;

/// The version of Kubernetes for which cases are rendered: the version of the tests' API server.
pub(crate) const DEFAULT_KUBERNETES: &str = "1.35.0";

/// A set of values and the expected result.
#[derive(Debug, Default)]
pub(crate) struct Case {
    pub(crate) title: String,
    /// YAML.
    pub(crate) values: String,
    /// The values of `--api-versions`.
    pub(crate) apis: Vec<String>,
    /// The version of Kubernetes, [`DEFAULT_KUBERNETES`] if not set.
    pub(crate) kubernetes: Option<String>,
    /// The name of the release, `ebs` if not set.
    pub(crate) release: Option<String>,
    /// A part of the error message, if Helm must reject the values.
    pub(crate) refused: Option<String>,
    /// The values remove a field that Kubernetes requires. Helm renders them, but an API server rejects the objects and
    /// names the field.
    pub(crate) is_incomplete: bool,
    pub(crate) expectations: Vec<Expectation>,
}

#[derive(Debug)]
pub(crate) struct Expectation {
    /// Line number in the case's file, from 1.
    pub(crate) line: usize,
    /// `Kind/name`.
    pub(crate) object: String,
    pub(crate) path: String,
    pub(crate) check: Check,
}

impl Case {
    pub(crate) fn kubernetes(&self) -> &str {
        self.kubernetes.as_deref().unwrap_or(DEFAULT_KUBERNETES)
    }

    pub(crate) fn release(&self) -> &str {
        self.release.as_deref().unwrap_or("ebs")
    }
}

/// Returns the written cases and the cases that are generated from the chart's values.
pub(crate) fn all() -> anyhow::Result<Vec<Case>> {
    let mut cases = written()?;
    cases.extend(deployments()?);
    cases.extend(crate::values::generated()?);
    Ok(cases)
}

/// Returns the values of whole deployments, one case for each file of `corpus/`.
pub(crate) fn deployments() -> anyhow::Result<Vec<Case>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart/corpus");
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let file = entry?;
        let name = file.file_name().to_string_lossy().into_owned();
        let values = std::fs::read_to_string(file.path()).with_context(|| format!("read {name}"))?;
        let mut case = vec![Case { title: name.clone(), values: values.clone(), ..Case::default() }];
        for (at, line) in values.lines().enumerate() {
            if let Some(line) = line.strip_prefix("#: ") {
                read(line, at + 1, &mut case).with_context(|| format!("{name}, line {}: {line}", at + 1))?;
            }
        }
        cases.append(&mut case);
    }
    Ok(cases)
}

/// Returns the cases of `cases.txt`.
pub(crate) fn written() -> anyhow::Result<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    for (number, line) in include_str!("cases.txt").lines().enumerate() {
        let line_number = number + 1;
        read(line, line_number, &mut cases).with_context(|| format!("cases.txt, line {line_number}: {line}"))?;
    }
    Ok(cases)
}

fn read(line: &str, number: usize, cases: &mut Vec<Case>) -> anyhow::Result<()> {
    if line.trim().is_empty() || line.starts_with('#') {
        return Ok(());
    }
    if let Some(title) = line.strip_prefix("== ") {
        cases.push(Case { title: title.to_owned(), ..Case::default() });
        return Ok(());
    }
    let case = cases.last_mut().context("a case begins with ==")?;
    if let Some((key, text)) = line.split_once(": ").filter(|(key, _)| !key.contains(['/', ' '])) {
        match key {
            "values" => {
                case.values.push_str(text);
                case.values.push('\n');
            }
            "api" => case.apis.push(text.to_owned()),
            "kubernetes" => case.kubernetes = Some(text.to_owned()),
            "release" => case.release = Some(text.to_owned()),
            "refused" => case.refused = Some(text.to_owned()),
            _ => bail!("{key:?} is not a key"),
        }
        return Ok(());
    }
    let mut words = line.splitn(3, ' ');
    let object = words.next().unwrap_or_default().to_owned();
    let path = words.next().context("no path")?.to_owned();
    let check = Check::parse(words.next().unwrap_or_default())?;
    case.expectations.push(Expectation { line: number, object, path, check });
    Ok(())
}
