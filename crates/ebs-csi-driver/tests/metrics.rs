//! A real Prometheus scrapes the running binary, in clear text and over TLS, and its tools check the metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ebs_testkit::csi_client::{Access, new_volume};
use ebs_testkit::process::{Process, ProcessSpec, tool};
use ebs_testkit::world::{World, with_mounts};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
const ALERTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/monitoring/alerts.yaml");
/// Prometheus scrapes every second; the machine may be busy.
const BOUND: Duration = Duration::from_secs(120);

/// promtool's complaints about the reference's names, which cannot change.
const COMPLAINTS: [&str; 1] =
    // The in-tree cloud provider chose this name before the suffix was a rule.
    [r#"cloudprovider_aws_api_request_errors counter metrics should have "_total" suffix"#];

/// Returns the path of a Prometheus program.
fn program(variable: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_file());
    path.with_context(|| {
        format!("{variable} names no program: run `make test`, or source what `scripts/setup test` prints")
    })
}

fn promtool() -> anyhow::Result<String> {
    Ok(program("EBS_TEST_PROMTOOL")?.to_str().context("a path")?.to_owned())
}

async fn http_get(address: &str, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    // HTTP/1.0, so that the body is not chunked.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer")?;
    ensure!(head.starts_with("HTTP/1.0 200") || head.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    Ok(body.to_owned())
}

/// Waits until the driver serves its pages, and returns their address.
async fn address_of_pages(world: &World) -> anyhow::Result<String> {
    let words = "serving /metrics, /healthz and /readyz";
    world.until_logged("the address of the pages", |log| log.contains(words)).await?;
    let log = std::fs::read_to_string(&world.driver_spec().log)?;
    let line = log.lines().find(|line| line.contains(words)).context("the line")?;
    let address = line.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next());
    Ok(address.context("an address")?.trim_matches('"').to_owned())
}

/// A Prometheus that scrapes one address every second, and evaluates the alerts of `deploy/monitoring`.
struct Prometheus {
    address: String,
    _process: Process,
}

impl Prometheus {
    async fn start(dir: &Path, target: &str, scheme: &str) -> anyhow::Result<Self> {
        let dir = dir.join("prometheus");
        std::fs::create_dir(&dir)?;
        std::fs::copy(ALERTS, dir.join("rules.yaml"))?;
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: [rules.yaml]\n\
             scrape_configs: [{{job_name: ebs, {scheme}, static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        std::fs::write(dir.join("prometheus.yaml"), config)?;
        let args = [
            format!("--config.file={}", dir.join("prometheus.yaml").display()),
            format!("--storage.tsdb.path={}", dir.join("data").display()),
            "--web.listen-address=127.0.0.1:0".to_owned(),
        ];
        let process = Process::spawn(ProcessSpec {
            name: "prometheus".to_owned(),
            program: program("EBS_TEST_PROMETHEUS")?,
            args: args.map(Into::into).to_vec(),
            env: BTreeMap::new(),
            log: dir.join("log"),
        })?;
        let mut prometheus = Self { address: String::new(), _process: process };
        prometheus.address = prometheus.listening(&dir.join("log")).await?;
        Ok(prometheus)
    }

    async fn listening(&self, log: &Path) -> anyhow::Result<String> {
        let listening = async {
            loop {
                let log = std::fs::read_to_string(log).unwrap_or_default();
                let line = log.lines().find(|line| line.contains("msg=\"Listening on\""));
                if let Some(address) = line.and_then(|line| line.split("address=").nth(1)).map(str::trim)
                    // It listens before it can answer.
                    && http_get(address, "/-/ready").await.is_ok()
                {
                    return address.to_owned();
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let found = tokio::time::timeout(BOUND, listening).await;
        found.with_context(|| {
            format!("Prometheus does not get ready: {}", std::fs::read_to_string(log).unwrap_or_default())
        })
    }

    async fn api(&self, path: &str) -> anyhow::Result<Value> {
        let answer: Value = serde_json::from_str(&http_get(&self.address, path).await?)?;
        ensure!(answer["status"] == "success", "{path}: {answer}");
        Ok(answer["data"].clone())
    }

    /// Returns all series of the driver that it has now, in the format of the driver's page.
    async fn series(&self) -> anyhow::Result<BTreeSet<String>> {
        let answer = self.api("/api/v1/query?query=%7Bjob%3D%22ebs%22%7D").await?;
        let of_prometheus = ["up", "ALERTS", "ALERTS_FOR_STATE"];
        let mut series = BTreeSet::new();
        for sample in answer["result"].as_array().context("a list")? {
            let labels: BTreeMap<String, String> = serde_json::from_value(sample["metric"].clone())?;
            let name = labels.get("__name__").context("a name")?.clone();
            if of_prometheus.contains(&name.as_str()) || name.starts_with("scrape_") {
                continue;
            }
            let own = labels.iter().filter(|(label, _)| !["__name__", "job", "instance"].contains(&label.as_str()));
            series.insert(written(&name, own.map(|(label, value)| (label.clone(), value.clone()))));
        }
        Ok(series)
    }

    /// Waits until it has all of these series.
    async fn until_it_has(&self, wanted: &BTreeSet<String>) -> anyhow::Result<()> {
        let mut missing = BTreeSet::new();
        let all = async {
            loop {
                missing = wanted.difference(&self.series().await?).cloned().collect();
                if missing.is_empty() {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        match tokio::time::timeout(BOUND, all).await {
            Ok(done) => done,
            Err(_elapsed) => bail!("missing: {missing:?}; targets: {}", self.api("/api/v1/targets").await?),
        }
    }

    /// Checks that it reaches the driver and has evaluated every alert of `deploy/monitoring` without an error.
    async fn is_well(&self) -> anyhow::Result<()> {
        let targets = self.api("/api/v1/targets").await?;
        let target = &targets["activeTargets"][0];
        ensure!(target["health"] == "up" && target["lastError"] == "", "{targets}");
        let evaluated = async {
            loop {
                let groups = self.api("/api/v1/rules").await?;
                let rules: Vec<Value> = groups["groups"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default())
                    .collect();
                ensure!(!rules.is_empty() && rules.iter().all(|rule| rule["health"] != "err"), "{groups}");
                if rules.iter().all(|rule| rule["health"] == "ok") {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        tokio::time::timeout(BOUND, evaluated).await.context("the rules were not all evaluated")?
    }
}

/// Prometheus drops labels with an empty value.
fn written(name: &str, labels: impl Iterator<Item = (String, String)>) -> String {
    let labels: BTreeMap<String, String> = labels.filter(|(_, value)| !value.is_empty()).collect();
    format!("{name} {labels:?}")
}

/// Returns the series of a page.
fn series_of(page: &str) -> BTreeSet<String> {
    let samples = page.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let series = samples.map(|line| {
        let (series, _value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let pairs = labels.trim_end_matches('}').split(',').filter_map(|pair| pair.split_once('='));
        written(name, pairs.map(|(label, value)| (label.to_owned(), value.trim_matches('"').to_owned())))
    });
    series.collect()
}

/// Returns the metrics of a page.
fn metrics_of(page: &str) -> BTreeSet<&str> {
    page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).map(|(name, _)| name).collect()
}

/// Returns the rows of the documentation's table, which is generated from the code: the name and where the metric is
/// shown.
fn declared() -> anyhow::Result<BTreeMap<String, String>> {
    let document = std::fs::read_to_string(DOCUMENT)?;
    let rows = document.lines().filter(|line| line.starts_with("| `"));
    // The table of alerts has fewer columns.
    let rows = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>()).filter(|cells| cells.len() > 5);
    rows.map(|cells| {
        let (name, shown) = (cells.get(1).context("a name")?, cells.get(5).context("where it is shown")?);
        Ok((name.trim_matches('`').to_owned(), (*shown).to_owned()))
    })
    .collect()
}

/// Returns the complaints of `promtool check metrics` about a page, without the known ones about the reference's names.
async fn complaints(dir: &Path, page: &str) -> anyhow::Result<Vec<String>> {
    let file = dir.join("page");
    std::fs::write(&file, page)?;
    let check = format!("'{}' check metrics < '{}' 2>&1; true", promtool()?, file.display());
    let said = tool("/bin/sh", &["-c", &check], BOUND).await?;
    Ok(said.lines().filter(|line| !COMPLAINTS.contains(line)).map(str::to_owned).collect())
}

/// Prometheus has the same series as the page, and promtool accepts the names.
#[tokio::test]
async fn prometheus_reads_every_series_of_controller() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).mode("controller").arg("--http-endpoint=127.0.0.1:0");
    let world = world.arg("--deprecated-metrics").start().await?;
    let volume = world.client().create_volume(new_volume("pvc-metrics", 1, &Access::Mount("ext4".to_owned()))).await?;
    world.client().delete_volume(&volume.volume_id).await?;
    world.control().refuse_all("UnauthorizedOperation", 403).await?;
    let refused = new_volume("pvc-refused", 1, &Access::Mount("ext4".to_owned()));
    ensure!(world.client().create_volume(refused).await.is_err(), "EC2 refuses everything");
    world.control().no_faults().await?;
    let address = address_of_pages(&world).await?;
    let prometheus = Prometheus::start(world.dir(), &address, "scheme: http").await?;
    let page = http_get(&address, "/metrics").await?;
    prometheus.until_it_has(&series_of(&page)).await?;
    prometheus.is_well().await?;
    let declared = declared()?;
    let of_node: Vec<&str> = metrics_of(&page)
        .into_iter()
        .filter(|name| declared.get(*name).is_none_or(|shown| shown.starts_with("node")))
        .collect();
    ensure!(of_node.is_empty(), "no metrics of a controller: {of_node:?}");
    for metric in [
        "aws_ebs_csi_build_info",
        "aws_ebs_csi_panics_total",
        "aws_ebs_csi_rpc_requests_total",
        "aws_ebs_csi_rpc_duration_seconds",
        "aws_ebs_csi_api_request_duration_seconds",
        "aws_ebs_csi_api_request_errors_total",
        "aws_ebs_csi_api_requests_total",
        "aws_ebs_csi_ec2_health_check_success",
        "aws_ebs_csi_ec2_collector_scrapes_total",
        "aws_ebs_csi_ec2_collector_duration_seconds",
        "cloudprovider_aws_api_request_duration_seconds",
        "cloudprovider_aws_api_request_errors",
    ] {
        ensure!(metrics_of(&page).contains(metric), "{metric}: {page}");
    }
    let zero = "aws_ebs_csi_api_request_duration_seconds_count{request=\"EnableFastSnapshotRestores\"} 0\n";
    ensure!(page.contains(zero), "{page}");
    let complaints = complaints(world.dir(), &page).await?;
    ensure!(complaints.is_empty(), "{complaints:#?}");
    world.finish().await
}

/// The series include the statistics of disks. The driver serves nothing in clear text.
#[test]
fn prometheus_reads_series_of_node_over_tls() {
    with_mounts(|| async {
        let secret = tempfile::tempdir()?;
        let (certificate, key) = (secret.path().join("tls.crt"), secret.path().join("tls.key"));
        let authority = certify(&certificate, &key)?;
        let world = World::builder(DRIVER).loop_devices().arg("--http-endpoint=127.0.0.1:0");
        let world = world.arg(&format!("--metrics-cert-file={}", certificate.display()));
        let world = world.arg(&format!("--metrics-key-file={}", key.display())).start().await?;
        let access = Access::Mount("ext4".to_owned());
        let volume = world.client().create_volume(new_volume("pvc-metrics", 1, &access)).await?;
        let mut volume = world.on_node(volume, &access).await?;
        volume.attach().await?;
        volume.stage().await?;
        let address = address_of_pages(&world).await?;
        let trusted = secret.path().join("trusted.crt");
        std::fs::write(&trusted, &authority)?;
        let scheme = format!("scheme: https, tls_config: {{ca_file: '{}'}}", trusted.display());
        let prometheus = Prometheus::start(world.dir(), &address, &scheme).await?;
        let instance = world.client().node_info().await?.node_id;
        let collector = |name: &str| {
            let label = ("instance_id".to_owned(), instance.clone());
            written(&format!("aws_ebs_csi_nvme_collector_{name}"), std::iter::once(label))
        };
        let wanted = BTreeSet::from([
            written("aws_ebs_csi_panics_total", std::iter::empty()),
            written("aws_ebs_csi_metrics_certificate_last_reload_successful", std::iter::empty()),
            collector("scrapes_total"),
            collector("errors_total"),
            collector("duration_seconds_count"),
        ]);
        prometheus.until_it_has(&wanted).await?;
        prometheus.is_well().await?;
        // A loop device has no statistics, so each scrape counts an error.
        let errors = prometheus
            .api("/api/v1/query?query=max_over_time(aws_ebs_csi_nvme_collector_errors_total%5B5m%5D)")
            .await?;
        let count = errors["result"][0]["value"][1].as_str().and_then(|count| count.parse::<f64>().ok());
        ensure!(count.is_some_and(|count| count >= 1.0), "{errors}");
        ensure!(http_get(&address, "/metrics").await.is_err(), "nothing is served in clear");
        volume.unstage().await?;
        volume.detach().await?;
        world.client().delete_volume(volume.id()).await?;
        world.finish().await
    });
}

/// The node has a volume. Every metric of its page is declared.
#[test]
fn promtool_accepts_page_of_node() {
    with_mounts(|| async {
        let world = World::builder(DRIVER).loop_devices().arg("--http-endpoint=127.0.0.1:0").start().await?;
        let access = Access::Mount("ext4".to_owned());
        let volume = world.client().create_volume(new_volume("pvc-page", 1, &access)).await?;
        let mut volume = world.on_node(volume, &access).await?;
        volume.attach().await?;
        volume.stage().await?;
        let page = http_get(&address_of_pages(&world).await?, "/metrics").await?;
        for metric in ["aws_ebs_csi_nvme_collector_scrapes_total", "aws_ebs_csi_nvme_collector_errors_total"] {
            ensure!(metrics_of(&page).contains(metric), "{metric}: {page}");
        }
        let declared = declared()?;
        let unknown: Vec<&str> = metrics_of(&page).into_iter().filter(|name| !declared.contains_key(*name)).collect();
        ensure!(unknown.is_empty(), "not declared: {unknown:?}");
        let complaints = complaints(world.dir(), &page).await?;
        ensure!(complaints.is_empty(), "{complaints:#?}");
        volume.unstage().await?;
        volume.detach().await?;
        world.client().delete_volume(volume.id()).await?;
        world.finish().await
    });
}

/// Writes a certificate of a new authority for this machine's loopback address. Returns the certificate to trust.
fn certify(certificate: &Path, key: &Path) -> anyhow::Result<String> {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    std::fs::write(certificate, made.cert.pem())?;
    std::fs::write(key, made.signing_key.serialize_pem())?;
    Ok(made.cert.pem())
}

/// The driver exits with 1 and names the file before it changes anything.
#[tokio::test]
async fn unusable_certificate_ends_start_and_is_named() -> anyhow::Result<()> {
    let secret = tempfile::tempdir()?;
    let (certificate, key) = (secret.path().join("tls.crt"), secret.path().join("tls.key"));
    certify(&certificate, &key)?;
    std::fs::write(&key, "no key")?;
    let world = World::builder(DRIVER).mode("controller").arg("--http-endpoint=127.0.0.1:0");
    let world = world.arg(&format!("--metrics-cert-file={}", certificate.display()));
    let mut world = world.arg(&format!("--metrics-key-file={}", key.display())).start_without_driver().await?;
    world.spawn_driver()?;
    let (code, log) = world.driver_ended(BOUND).await?;
    ensure!(code == Some(1), "{code:?}: {log}");
    ensure!(log.contains(key.to_str().context("a path")?) && log.contains("invalid PEM"), "{log}");
    world.finish().await
}
