use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use component_base::metrics::{Desc, Kind};
use tokio::time::Instant;

use super::table::TABLE;
use super::*;

/// A row of the table: one metric.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) desc: &'static Desc,
    pub(super) shown: Shown,
    pub(super) origin: Origin,
}

/// Which drivers show the metric.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shown {
    /// Drivers in every mode.
    Everywhere,
    /// Drivers with a controller service.
    Controller,
    /// Drivers with a controller service, only with `--deprecated-metrics`.
    Deprecated,
    /// Drivers with a node service.
    Node,
    /// Drivers that serve metrics over TLS.
    Tls,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The name comes from the reference driver. So do the type, labels and buckets, which must never change.
    Reference,
    Ours,
}

const TOOK: Duration = Duration::from_millis(200);

fn lines(page: &str, name: &str) -> Vec<String> {
    page.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
}

/// A proxy may answer with any text. Texts that are not AWS error codes do not become labels, and the number of series
/// for invented codes is limited.
#[test]
fn number_of_error_code_labels_is_bounded() {
    let metrics = Metrics::default();
    let long = "X".repeat(65);
    for text in ["", "not a code", "<html>", "a\"b", "1Code", "Code\n", "Ünknown", &long] {
        metrics.count_ec2_call("AttachVolume", CallEnd::Refused(text), TOOK);
    }
    let page = metrics.page();
    for line in [
        r#"aws_ebs_csi_api_requests_total{outcome="other",request="AttachVolume"} 8"#,
        r#"aws_ebs_csi_api_request_errors_total{code="other",request="AttachVolume"} 8"#,
    ] {
        assert!(page.contains(&format!("{line}\n")), "{line} in {page}");
    }
    for code in ["InvalidVolume.NotFound", "VolumeInUse", "KMS.DisabledException", "EC2ThrottledException"] {
        metrics.count_ec2_call("AttachVolume", CallEnd::Refused(code), TOOK);
        assert!(metrics.page().contains(&format!("{{code=\"{code}\",request=\"AttachVolume\"}} 1\n")), "{code}");
    }
    for n in 0..10_000 {
        metrics.count_ec2_call("AttachVolume", CallEnd::Refused(&format!("Code{n}")), TOOK);
    }
    metrics.count_ec2_call("AttachVolume", CallEnd::Refused("VolumeInUse"), TOOK);
    let page = metrics.page();
    let series = page.lines().filter(|line| line.starts_with("aws_ebs_csi_api_request_errors_total")).count();
    assert!(series <= 300, "{series} series");
    assert!(page.contains(r#"aws_ebs_csi_api_request_errors_total{code="VolumeInUse",request="AttachVolume"} 2"#));
}

/// Failed RPCs count, too. EC2 calls count by outcome. Successful, rejected and throttled calls also have series of
/// their own, which calls without an answer do not change. Each deprecated metric has the value of its successor.
#[test]
fn each_rpc_and_call_counts_only_in_its_own_series() {
    let config = MetricsConfig { with_deprecated: true, ..MetricsConfig::default() };
    for (metrics, has_deprecated) in [(Metrics::new(config), true), (Metrics::default(), false)] {
        metrics.count_rpc("CreateVolume", "OK", TOOK);
        metrics.count_rpc("CreateVolume", "Aborted", Duration::from_hours(1));
        for end in [CallEnd::Done, CallEnd::Throttled, CallEnd::Refused("VolumeInUse"), CallEnd::NoAnswer("NotSent")] {
            metrics.count_ec2_call("AttachVolume", end, TOOK);
        }
        metrics.count_ec2_wait("AttachVolume", TOOK);
        metrics.count_ec2_wait("AttachVolume", TOOK);
        let page = metrics.page();
        let of_calls = |line: &&str| line.contains("AttachVolume") || line.contains("CreateVolume");
        let shown: Vec<&str> = page.lines().filter(of_calls).filter(|line| !line.contains("_bucket")).collect();
        let (ours, deprecated) = shown.split_at(13);
        assert_eq!(
            ours,
            [
                r#"aws_ebs_csi_api_held_back_seconds_total{request="AttachVolume"} 0.4"#,
                r#"aws_ebs_csi_api_request_duration_seconds_sum{request="AttachVolume"} 0.2"#,
                r#"aws_ebs_csi_api_request_duration_seconds_count{request="AttachVolume"} 1"#,
                r#"aws_ebs_csi_api_request_errors_total{code="VolumeInUse",request="AttachVolume"} 1"#,
                r#"aws_ebs_csi_api_request_throttles_total{operation_name="AttachVolume"} 1"#,
                r#"aws_ebs_csi_api_requests_total{outcome="NotSent",request="AttachVolume"} 1"#,
                r#"aws_ebs_csi_api_requests_total{outcome="VolumeInUse",request="AttachVolume"} 1"#,
                r#"aws_ebs_csi_api_requests_total{outcome="ok",request="AttachVolume"} 1"#,
                r#"aws_ebs_csi_api_requests_total{outcome="throttled",request="AttachVolume"} 1"#,
                r#"aws_ebs_csi_rpc_duration_seconds_sum{method="CreateVolume"} 3600.2"#,
                r#"aws_ebs_csi_rpc_duration_seconds_count{method="CreateVolume"} 2"#,
                r#"aws_ebs_csi_rpc_requests_total{code="Aborted",method="CreateVolume"} 1"#,
                r#"aws_ebs_csi_rpc_requests_total{code="OK",method="CreateVolume"} 1"#,
            ]
        );
        let expected = [
            r#"cloudprovider_aws_api_request_duration_seconds_sum{request="AttachVolume"} 0.2"#,
            r#"cloudprovider_aws_api_request_duration_seconds_count{request="AttachVolume"} 1"#,
            r#"cloudprovider_aws_api_request_errors{code="VolumeInUse",request="AttachVolume"} 1"#,
            r#"cloudprovider_aws_api_throttled_requests_total{operation_name="AttachVolume"} 1"#,
        ];
        assert_eq!(deprecated, if has_deprecated { &expected[..] } else { &[] });
    }
}

/// Counters appear when they are first incremented.
#[test]
fn duration_metrics_of_expected_actions_start_at_zero() {
    let config = MetricsConfig { expected_actions: vec!["CreateVolume", "DescribeTags"], ..MetricsConfig::default() };
    let page = Metrics::new(config).page();
    for action in ["CreateVolume", "DescribeTags"] {
        let line = format!(r#"aws_ebs_csi_api_request_duration_seconds_count{{request="{action}"}} 0"#);
        assert!(page.contains(&line), "{page}");
    }
    assert!(!page.contains("aws_ebs_csi_api_request_errors_total{"), "{page}");
}

/// A driver without health checks shows neither of the two metrics of health checks.
#[test]
fn last_health_check_is_shown_and_failures_are_counted() {
    let metrics = Metrics::new(MetricsConfig { checks_health: true, ..MetricsConfig::default() });
    let success = |metrics: &Metrics| lines(&metrics.page(), "aws_ebs_csi_ec2_health_check_success ");
    assert_eq!(success(&metrics), ["aws_ebs_csi_ec2_health_check_success 0"], "nobody has asked yet");
    metrics.note_health_check(Ok(()));
    assert_eq!(success(&metrics), ["aws_ebs_csi_ec2_health_check_success 1"]);
    for failure in [HealthFailure::Unavailable, HealthFailure::Unavailable, HealthFailure::PermissionDenied] {
        metrics.note_health_check(Err(failure));
    }
    assert_eq!(success(&metrics), ["aws_ebs_csi_ec2_health_check_success 0"]);
    let name = "aws_ebs_csi_ec2_health_check_failures_total";
    for (reason, count) in [("Unavailable", 2), ("PermissionDenied", 1)] {
        let line = format!("{name}{{reason=\"{reason}\"}} {count}");
        assert!(lines(&metrics.page(), name).contains(&line), "{}", metrics.page());
    }
    let without = Metrics::default();
    without.note_health_check(Ok(()));
    assert!(!without.page().contains("health_check"));
}

fn pending() -> PendingDetach {
    PendingDetach {
        volume_id: "vol-1".into(),
        instance_id: "i-1".into(),
        attachment_state: "busy".into(),
        since: Instant::now(),
    }
}

/// A detachment has two series, a counter under the reference's name and a gauge, from 60 s after its start until its
/// end. Each query of the detachments is counted and timed.
#[tokio::test(start_paused = true)]
async fn pending_detachment_is_shown_after_60_s_until_it_ends() {
    let waiting = Arc::new(Mutex::new(vec![pending()]));
    let metrics = Metrics::default();
    let source = Arc::clone(&waiting);
    metrics.set_detaches(move || source.lock().unwrap().clone());
    let name = "aws_ebs_csi_ec2_detach_pending_seconds_total";
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(lines(&metrics.page(), name), Vec::<String>::new());
    tokio::time::advance(Duration::from_secs(5)).await;
    let labels = r#"{attachment_state="busy",instance_id="i-1",volume_id="vol-1"}"#;
    assert_eq!(lines(&metrics.page(), name), [format!("{name}{labels} 65")]);
    let level = "aws_ebs_csi_ec2_detachment_age_seconds";
    assert_eq!(lines(&metrics.page(), level), [format!("{level}{labels} 65")]);
    waiting.lock().unwrap().clear();
    assert_eq!(lines(&metrics.page(), name), Vec::<String>::new());
    let page = metrics.page();
    assert!(page.contains("aws_ebs_csi_ec2_collector_scrapes_total 5"), "{page}");
    assert!(page.contains(r#"aws_ebs_csi_ec2_collector_duration_seconds_bucket{le="10"} 5"#), "{page}");
}

struct OneDisk;

impl Disks for OneDisk {
    fn read(&self) -> Pin<Box<dyn Future<Output = DiskReport> + Send + '_>> {
        let disk = DiskStatistics { volume_id: "vol-1".to_owned(), ..DiskStatistics::default() };
        Box::pin(async { DiskReport { instance_id: "i-1".to_owned(), disks: vec![disk], errors: 0 } })
    }
}

fn running() -> Vec<(&'static str, Duration)> {
    let ages = [("NodeVolume", 2), ("Attachment", 900), ("NodeVolume", 30)];
    ages.map(|(kind, seconds)| (kind, Duration::from_secs(seconds))).to_vec()
}

#[test]
fn running_operations_are_shown_with_age_of_oldest() {
    let metrics = Metrics::default();
    metrics.set_operations(running);
    let page = metrics.page();
    for (name, kind, value) in [
        ("running", "NodeVolume", "2"),
        ("running", "Attachment", "1"),
        ("oldest_seconds", "NodeVolume", "30"),
        ("oldest_seconds", "Attachment", "900"),
    ] {
        let line = format!("aws_ebs_csi_operations_{name}{{operation=\"{kind}\"}} {value}\n");
        assert!(page.contains(&line), "{line} in {page}");
    }
}

/// Returns a page with a sample of every metric.
async fn full_page() -> String {
    let metrics = Metrics::new(MetricsConfig {
        version: "v1.2.3",
        commit: "abc",
        with_deprecated: true,
        expected_actions: vec!["CreateVolume"],
        checks_health: true,
    });
    let since = pending();
    metrics.set_detaches(move || vec![since.clone()]);
    metrics.set_volumes(|| vec![unhealthy("NoAnswer")], || vec![not_grown()]);
    metrics.set_operations(running);
    metrics.set_disks(OneDisk);
    metrics.count_rpc("CreateVolume", "OK", TOOK);
    for end in [CallEnd::Done, CallEnd::Throttled, CallEnd::Refused("VolumeInUse")] {
        metrics.count_ec2_call("AttachVolume", end, TOOK);
    }
    metrics.count_ec2_wait("AttachVolume", TOOK);
    metrics.count_spare_call("DetachVolume");
    metrics.count_wait_ended_by_time("AttachVolume");
    metrics.note_health_check(Err(HealthFailure::Internal));
    metrics.note_certificate(true);
    tokio::time::advance(Duration::from_secs(61)).await;
    metrics.scrape().await
}

#[tokio::test(start_paused = true)]
async fn page_has_exactly_the_declared_metrics() {
    let page = full_page().await;
    let types: BTreeMap<&str, &str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let declared: BTreeMap<&str, &str> = TABLE.iter().map(|row| (row.desc.name, row.desc.kind.as_str())).collect();
    assert_eq!(types, declared);
    assert_eq!(TABLE.len(), declared.len(), "each is declared once");
    for row in TABLE {
        let sample = lines(&page, row.desc.name).into_iter().find(|line| {
            let rest = &line[row.desc.name.len()..];
            ["{", " ", "_bucket", "_count"].iter().any(|next| rest.starts_with(next))
        });
        let sample = sample.unwrap();
        let shown: Vec<&str> = sample
            .split_once('{')
            .and_then(|(_, rest)| rest.rsplit_once('}'))
            .map(|(labels, _)| labels.split(',').map(|label| label.split('=').next().unwrap()).collect())
            .unwrap_or_default();
        let labels: Vec<&str> = shown.into_iter().filter(|label| *label != "le").collect();
        assert_eq!(labels, row.desc.labels, "{}", row.desc.name);
        assert!(labels.is_sorted(), "{}", row.desc.name);
    }
}

#[test]
fn reference_metrics_keep_names_types_and_labels() {
    let ours: Vec<String> = TABLE
        .iter()
        .filter(|row| row.origin == Origin::Reference)
        .map(|row| {
            format!(
                "{} {} {}",
                row.desc.name.replace("aws_ebs_csi_", ""),
                row.desc.kind.as_str(),
                row.desc.labels.join(",")
            )
        })
        .collect();
    assert_eq!(
        ours,
        [
            "api_request_duration_seconds histogram request",
            "api_request_errors_total counter code,request",
            "api_request_throttles_total counter operation_name",
            "cloudprovider_aws_api_request_duration_seconds histogram request",
            "cloudprovider_aws_api_request_errors counter code,request",
            "cloudprovider_aws_api_throttled_requests_total counter operation_name",
            "ec2_detach_pending_seconds_total counter attachment_state,instance_id,volume_id",
            "ec2_collector_scrapes_total counter ",
            "ec2_collector_duration_seconds histogram ",
            "read_ops_total counter instance_id,volume_id",
            "write_ops_total counter instance_id,volume_id",
            "read_bytes_total counter instance_id,volume_id",
            "write_bytes_total counter instance_id,volume_id",
            "read_seconds_total counter instance_id,volume_id",
            "write_seconds_total counter instance_id,volume_id",
            "exceeded_iops_seconds_total counter instance_id,volume_id",
            "exceeded_tp_seconds_total counter instance_id,volume_id",
            "ec2_exceeded_iops_seconds_total counter instance_id,volume_id",
            "ec2_exceeded_tp_seconds_total counter instance_id,volume_id",
            "volume_queue_length gauge instance_id,volume_id",
            "read_io_latency_seconds histogram instance_id,volume_id",
            "write_io_latency_seconds histogram instance_id,volume_id",
            "nvme_collector_scrapes_total counter instance_id",
            "nvme_collector_errors_total counter instance_id",
            "nvme_collector_duration_seconds histogram instance_id",
        ]
    );
}

/// Returns the unit that the name ends with, or an empty text for plain numbers.
fn unit(name: &str) -> &'static str {
    let bare = name.strip_suffix("_total").unwrap_or(name);
    ["seconds", "bytes"].into_iter().find(|unit| bare.ends_with(unit)).unwrap_or("")
}

fn table() -> String {
    let mut table =
        "| metric | type | unit | labels | shown | whose | meaning |\n|---|---|---|---|---|---|---|\n".to_owned();
    for row in TABLE {
        let labels: Vec<String> = row.desc.labels.iter().map(|label| format!("`{label}`")).collect();
        let shown = match row.shown {
            Shown::Everywhere => "always",
            Shown::Controller => "controller, all",
            Shown::Deprecated => "controller, all: `--deprecated-metrics`",
            Shown::Node => "node, all",
            Shown::Tls => "with TLS",
        };
        let whose = if row.origin == Origin::Reference { "reference" } else { "ours" };
        let bounds = match row.desc.kind {
            Kind::Histogram(bounds) if !bounds.is_empty() => {
                let bounds: Vec<String> = bounds.iter().map(ToString::to_string).collect();
                format!("; up to {}", bounds.join(", "))
            }
            Kind::Counter | Kind::Gauge | Kind::Histogram(_) => String::new(),
        };
        table.push_str(&format!(
            "| `{}` | {} | {} | {} | {shown} | {whose} | {}{bounds} |\n",
            row.desc.name,
            row.desc.kind.as_str(),
            unit(row.desc.name),
            labels.join(", "),
            row.desc.help,
        ));
    }
    table
}

/// With `EBS_WRITE_DOCS=1`, the test rewrites the table instead.
#[test]
fn documented_metrics_match_the_code() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- table of the code: metrics -->\n", "<!-- end of metrics -->\n");
    let (before, rest) = page.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let wanted = format!("{before}{begin}{}{end}{after}", table());
    if std::env::var_os("EBS_WRITE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(&path, wanted).unwrap();
    } else {
        assert!(page == wanted, "docs/metrics.md is not as the code says: run this test with EBS_WRITE_DOCS=1");
    }
}

fn unhealthy(reason: &'static str) -> UnhealthyVolume {
    UnhealthyVolume { volume_id: "vol-1".to_owned(), status: "Degraded", reason }
}

fn not_grown() -> NotGrownVolume {
    NotGrownVolume { volume_id: "vol-1".to_owned(), missing: 1 << 30 }
}

#[test]
fn volume_that_has_not_grown_has_gauge_of_missing_bytes() {
    let metrics = Metrics::default();
    metrics.set_volumes(Vec::new, || vec![not_grown()]);
    let line = r#"aws_ebs_csi_volume_not_grown_bytes{volume_id="vol-1"} 1.073741824e+09"#;
    assert_eq!(lines(&metrics.page(), "aws_ebs_csi_volume_not_grown_bytes{"), [line]);
}

#[test]
fn unhealthy_volume_has_gauge_until_it_is_healthy() {
    let volumes = Arc::new(Mutex::new(vec![unhealthy("ReadOnlyAfterErrors")]));
    let metrics = Metrics::default();
    let source = Arc::clone(&volumes);
    metrics.set_volumes(move || source.lock().unwrap().clone(), Vec::new);
    let name = "aws_ebs_csi_volume_unhealthy{";
    let line = r#"aws_ebs_csi_volume_unhealthy{reason="ReadOnlyAfterErrors",status="Degraded",volume_id="vol-1"} 1"#;
    assert_eq!(lines(&metrics.page(), name), [line]);
    volumes.lock().unwrap().clear();
    assert!(lines(&metrics.page(), name).is_empty());
    assert!(!Metrics::default().page().contains("aws_ebs_csi_volume_unhealthy"));
}
