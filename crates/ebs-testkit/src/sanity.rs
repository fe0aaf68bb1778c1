//! csi-sanity, the conformance suite of the CSI community, against a running driver.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::process::{Process, ProcessSpec};

/// The variable with the path of the csi-sanity program.
pub const PROGRAM: &str = "EBS_TEST_CSI_SANITY";

/// What to run it with.
#[derive(Debug, Clone)]
pub struct SanitySpec {
    pub socket: PathBuf,
    /// A directory for mounts, parameters and reports.
    pub dir: PathBuf,
    /// Size of the volumes it makes, in bytes.
    pub volume_bytes: u64,
    /// Size it expands them to, in bytes.
    pub expanded_bytes: u64,
    /// `mount` or `block`.
    pub access: &'static str,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SanityResult {
    /// Names of the specs that passed.
    pub passed: Vec<String>,
    /// Names of those that failed, and why.
    pub failed: BTreeMap<String, String>,
    /// Names of those that skipped themselves, and their reason.
    pub skipped: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct Suite {
    #[serde(rename = "SpecReports", default)]
    specs: Option<Vec<Spec>>,
}

#[derive(Debug, Deserialize)]
struct Spec {
    #[serde(rename = "ContainerHierarchyTexts", default)]
    containers: Option<Vec<String>>,
    #[serde(rename = "LeafNodeType", default)]
    kind: String,
    #[serde(rename = "LeafNodeText", default)]
    text: String,
    #[serde(rename = "State")]
    state: String,
    #[serde(rename = "Failure", default)]
    failure: Option<Failure>,
}

#[derive(Debug, Deserialize)]
struct Failure {
    #[serde(rename = "Message", default)]
    message: String,
}

/// The program that the environment names.
///
/// # Errors
/// Says how to get it when the variable is missing or names no file.
pub fn program() -> anyhow::Result<PathBuf> {
    let how = "`make test` installs it and sets the variable; by hand: go install \
               github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@v5.6.0";
    let Some(path) = std::env::var_os(PROGRAM).map(PathBuf::from) else {
        bail!("{PROGRAM} is not set: it names the csi-sanity program. {how}");
    };
    if !path.is_file() {
        bail!("{PROGRAM}={}: no such file. {how}", path.display());
    }
    Ok(path)
}

/// Runs it to its end, at most `bound`.
///
/// # Errors
/// When it cannot be run, takes too long or writes no report; failed specs are no error but in the result.
pub async fn run(program: &Path, spec: &SanitySpec, bound: Duration) -> anyhow::Result<SanityResult> {
    std::fs::create_dir_all(&spec.dir).context("make the directory of csi-sanity")?;
    let report = spec.dir.join("report.json");
    let parameters = spec.dir.join("parameters.yaml");
    std::fs::write(&parameters, "type: gp3\n").context("write the volume parameters")?;
    let flags = [
        ("csi.endpoint", format!("unix://{}", spec.socket.display())),
        ("csi.mountdir", spec.dir.join("target").display().to_string()),
        ("csi.stagingdir", spec.dir.join("staging").display().to_string()),
        ("csi.testvolumesize", spec.volume_bytes.to_string()),
        ("csi.testvolumeexpandsize", spec.expanded_bytes.to_string()),
        ("csi.testvolumeparameters", parameters.display().to_string()),
        ("csi.testvolumeaccesstype", spec.access.to_owned()),
        ("csi.testnodevolumeattachlimit", "true".to_owned()),
        ("ginkgo.json-report", report.display().to_string()),
        ("ginkgo.no-color", "true".to_owned()),
        ("ginkgo.v", "true".to_owned()),
    ];
    let mut process = Process::spawn(ProcessSpec {
        name: "csi-sanity".to_owned(),
        program: program.to_owned(),
        args: flags.iter().map(|(name, value)| OsString::from(format!("-{name}={value}"))).collect(),
        env: BTreeMap::new(),
        log: spec.dir.join("csi-sanity.log"),
    })?;
    let status = process.wait(bound).await.with_context(|| process.log_tail(40))?;
    let text = std::fs::read(&report)
        .with_context(|| format!("csi-sanity ended with {status} and without a report:\n{}", process.log_tail(40)))?;
    let result = parse(&text)?;
    if status.success() != result.failed.is_empty() {
        bail!("csi-sanity ended with {status}, but reports {} failed specs", result.failed.len());
    }
    Ok(result)
}

fn parse(report: &[u8]) -> anyhow::Result<SanityResult> {
    let suites: Vec<Suite> = serde_json::from_slice(report).context("understand csi-sanity's report")?;
    let mut result = SanityResult { passed: Vec::new(), failed: BTreeMap::new(), skipped: BTreeMap::new() };
    for spec in suites.into_iter().flat_map(|suite| suite.specs.unwrap_or_default()) {
        let mut words = spec.containers.unwrap_or_default();
        words.push(if spec.text.is_empty() { spec.kind.clone() } else { spec.text });
        let name = words.join(" / ");
        let message = spec.failure.map(|failure| failure.message).unwrap_or_default();
        match spec.state.as_str() {
            "passed" if spec.kind == "It" => result.passed.push(name),
            "passed" => {}
            "skipped" => drop(result.skipped.insert(name, message)),
            "pending" => drop(result.skipped.insert(name, "pending in csi-sanity itself".to_owned())),
            other => drop(result.failed.insert(name, format!("{other}: {message}"))),
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_split_into_passed_failed_and_skipped_with_their_reasons() {
        let report = br#"[{"SpecReports":[
            {"ContainerHierarchyTexts":["Node Service","NodeX"],"LeafNodeType":"It","LeafNodeText":"works","State":"passed"},
            {"ContainerHierarchyTexts":["Node Service"],"LeafNodeType":"It","LeafNodeText":"fails","State":"failed","Failure":{"Message":"no"}},
            {"ContainerHierarchyTexts":null,"LeafNodeType":"It","LeafNodeText":"is not for us","State":"skipped","Failure":{"Message":"GetCapacity not supported"}},
            {"ContainerHierarchyTexts":null,"LeafNodeType":"It","LeafNodeText":"comes later","State":"pending"},
            {"ContainerHierarchyTexts":null,"LeafNodeType":"ReportAfterSuite","LeafNodeText":"","State":"passed"},
            {"ContainerHierarchyTexts":["A"],"LeafNodeType":"It","LeafNodeText":"hangs","State":"timedout"}
        ]}]"#;
        let result = parse(report).unwrap();
        assert_eq!(result.passed, ["Node Service / NodeX / works"]);
        assert_eq!(result.failed["Node Service / fails"], "failed: no");
        assert_eq!(result.failed["A / hangs"], "timedout: ");
        assert_eq!(result.skipped["is not for us"], "GetCapacity not supported");
        assert_eq!(result.skipped["comes later"], "pending in csi-sanity itself");
    }
}
