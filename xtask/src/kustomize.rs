//! `cargo xtask kustomize`: the manifests of `deploy/kubernetes/base`, rendered by Helm from the chart, a file for each
//! of its templates. The overlays beside them are written by hand and tested as a whole.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ebs_testkit::process::{Process, ProcessSpec};

const CHART: &str = "charts/aws-ebs-csi-driver";
const BASE: &str = "deploy/kubernetes/base";
const HEADER: &str = "# Written by `cargo xtask kustomize` from the chart.\n";
/// Rendered for Kubernetes that serves every API which the chart asks for; an overlay takes away what earlier ones
/// lack.
const RENDERED_FOR: [&str; 10] = [
    "--namespace",
    "kube-system",
    "--kube-version",
    "1.35.0",
    "--api-versions",
    "snapshot.storage.k8s.io/v1",
    "--set",
    "controller.userAgentExtra=kustomize",
    "--set",
    "helmTester.enabled=false",
];
/// Its objects get none of Helm's labels.
const RELEASE: &str = "kustomize";
/// There for overlays that copy it, and no resource of the base: most clusters have no Windows nodes.
const UNLISTED: &str = "node-windows.yaml";
const BOUND: Duration = Duration::from_secs(120);

/// What it is told.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct KustomizeArgs {
    /// Write nothing; fail when a file is not what the chart says
    #[arg(long)]
    check: bool,
}

/// Texts by the names of their files.
type Files = BTreeMap<String, String>;

/// Writes the files of the base that are not as the chart says, or with `--check` fails when there are any.
///
/// # Errors
/// When there is no Helm, it fails, or a file cannot be written.
pub(crate) fn run(args: &KustomizeArgs) -> anyhow::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace's directory")?;
    let base = root.join(BASE);
    let wanted = files(&render(&root.join(CHART))?)?;
    let there = read(&base)?;
    let mut out = std::io::stdout().lock();
    let mut changed = 0;
    for name in wanted.keys().chain(there.keys().filter(|name| !wanted.contains_key(*name))) {
        if wanted.get(name) == there.get(name) {
            continue;
        }
        changed += 1;
        writeln!(out, "{BASE}/{name}")?;
        if !args.check {
            write(&base.join(name), wanted.get(name))?;
        }
    }
    if args.check && changed > 0 {
        writeln!(out, "kustomize: {changed} files are not what the chart says: run `cargo xtask kustomize`")?;
        return Ok(ExitCode::FAILURE);
    }
    writeln!(out, "kustomize: {changed} of {} files changed", wanted.len())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a file, or removes it where there is no text.
fn write(path: &Path, text: Option<&String>) -> anyhow::Result<()> {
    let done = match text {
        Some(text) => std::fs::write(path, text),
        None => std::fs::remove_file(path),
    };
    done.with_context(|| format!("cannot write {}", path.display()))
}

fn read(base: &Path) -> anyhow::Result<Files> {
    std::fs::create_dir_all(base).with_context(|| format!("cannot make {BASE}"))?;
    let mut files = Files::new();
    for entry in std::fs::read_dir(base)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.insert(name, std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?);
    }
    Ok(files)
}

/// What Helm makes of the chart.
fn render(chart: &Path) -> anyhow::Result<String> {
    let helm = std::env::var_os("EBS_TEST_HELM").map(PathBuf::from);
    let helm = helm.context("EBS_TEST_HELM names no helm: eval \"$(scripts/setup test)\"")?;
    let dir = tempfile::tempdir().context("a directory for Helm")?;
    let mut args: Vec<OsString> = vec!["template".into(), RELEASE.into(), chart.into()];
    args.extend(RENDERED_FOR.map(OsString::from));
    let env = BTreeMap::from([("HOME".to_owned(), dir.path().display().to_string())]);
    let log = dir.path().join("log");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start tokio")?;
    runtime.block_on(async {
        let mut helm = Process::spawn(ProcessSpec { name: "helm".to_owned(), program: helm, args, env, log })?;
        let status = helm.wait(BOUND).await?;
        let wrote = helm.output()?;
        ensure!(status.success(), "helm ended with {status}: {wrote}");
        Ok(wrote)
    })
}

/// The files of the base, from what Helm wrote.
fn files(rendered: &str) -> anyhow::Result<Files> {
    let mut files = Files::new();
    for object in rendered.split("---\n").map(str::trim).filter(|object| !object.is_empty()) {
        let (name, text) = file(object)?;
        let file = files.entry(name).or_insert_with(|| HEADER.to_owned());
        file.push_str("---\n");
        file.push_str(&text);
    }
    let mut list = format!("{HEADER}apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n");
    for name in files.keys().filter(|name| *name != UNLISTED) {
        list.push_str(&format!("  - {name}\n"));
    }
    files.insert("kustomization.yaml".to_owned(), list);
    Ok(files)
}

/// The name of the file that holds an object, and the object without empty lines.
fn file(object: &str) -> anyhow::Result<(String, String)> {
    let (source, body) = object.split_once('\n').context("an object without a line")?;
    let Some(template) = source.strip_prefix("# Source: ").and_then(|source| source.rsplit('/').next()) else {
        bail!("{source:?} names no template");
    };
    let windows = body.lines().any(|line| line == "  name: ebs-csi-node-windows");
    let name = if windows { UNLISTED } else { template };
    let lines = body.lines().filter(|line| !line.trim().is_empty());
    Ok((name.to_owned(), lines.fold(String::new(), |text, line| text + line.trim_end() + "\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_go_to_the_file_of_their_template_and_those_of_windows_to_one_that_is_not_listed() {
        let rendered = "---\n# Source: c/templates/node.yaml\nkind: DaemonSet\nmetadata:\n  name: ebs-csi-node\n\n---\n\
             # Source: c/templates/node.yaml\nkind: DaemonSet\nmetadata:\n  name: ebs-csi-node-windows\n---\n\
             # Source: c/templates/node.yaml\nkind: ServiceAccount\n";
        let files = files(rendered).unwrap();
        let node = "---\nkind: DaemonSet\nmetadata:\n  name: ebs-csi-node\n---\nkind: ServiceAccount\n";
        assert_eq!(files["node.yaml"], format!("{HEADER}{node}"));
        assert!(files[UNLISTED].ends_with("  name: ebs-csi-node-windows\n"));
        assert!(files["kustomization.yaml"].ends_with("resources:\n  - node.yaml\n"));
    }

    #[test]
    fn what_names_no_template_is_refused() {
        assert!(files("WARNING: something\nelse\n").is_err());
    }
}
