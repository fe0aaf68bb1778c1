//! Metrics in Prometheus' text format 0.0.4. The text equals the Go library's output byte for byte, because dashboards
//! and scripts depend on it.
//!
//! No library fits, so the encoder is our own. `metrics-exporter-prometheus` cannot count fractions of a second, and
//! has no histograms whose counts come from a device. `prometheus-client` prints OpenMetrics, which has no counter
//! without `_total` and writes bounds as `le="10.0"`. `prometheus` prints numbers as Rust does.

mod store;

pub use store::Series;

/// The Prometheus type of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A counter, which only increases until a restart.
    Counter,
    /// A gauge, which is a current value.
    Gauge,
    /// A histogram with these upper bounds, in the metric's unit. If the list is empty, each sample has its own bounds.
    Histogram(&'static [f64]),
}

/// Declares a metric.
#[derive(Debug, Clone, Copy)]
pub struct Desc {
    /// The name on the page, which includes `_total`.
    pub name: &'static str,
    pub kind: Kind,
    /// The names of the labels, in alphabetical order as on the page.
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

impl Kind {
    /// Returns the metric type's name on the page.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

impl Desc {
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Counter, labels: &[], help }
    }

    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, labels: &[], help }
    }

    pub const fn histogram(name: &'static str, bounds: &'static [f64], help: &'static str) -> Self {
        Self { name, kind: Kind::Histogram(bounds), labels: &[], help }
    }

    #[must_use]
    pub const fn by(mut self, labels: &'static [&'static str]) -> Self {
        self.labels = labels;
        self
    }
}

/// The media type of a page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All samples of one metric.
#[derive(Debug)]
pub struct Family {
    pub desc: &'static Desc,
    pub samples: Vec<Sample>,
}

/// One series of a metric, and its current value.
#[derive(Debug)]
pub struct Sample {
    /// The values of the declared labels, in the same order.
    pub labels: Vec<String>,
    pub value: Value,
}

/// The value of a series: a number, or the counts of a histogram.
#[derive(Debug, Clone)]
pub enum Value {
    /// The value of a counter or gauge.
    Number(f64),
    Histogram {
        /// The upper bounds, and the number of observations at or below each. The bucket without a bound is omitted.
        buckets: Vec<(f64, u64)>,
        sum: f64,
        count: u64,
    },
}

impl Sample {
    /// Creates a sample of a counter or gauge.
    pub fn number(labels: &[&str], value: f64) -> Self {
        Self { labels: labels.iter().map(|&label| label.to_owned()).collect(), value: Value::Number(value) }
    }
}

/// Returns the page. Sorts families by name and samples by labels. Omits families without samples.
pub fn page(mut families: Vec<Family>) -> String {
    families.sort_by_key(|family| family.desc.name);
    let mut page = String::new();
    for family in families.iter_mut().filter(|family| !family.samples.is_empty()) {
        family.samples.sort_by(|one, other| one.labels.cmp(&other.labels));
        push_family(&mut page, family);
    }
    page
}

fn push_family(page: &mut String, family: &Family) {
    let desc = family.desc;
    let help = desc.help.replace('\\', "\\\\").replace('\n', "\\n");
    page.push_str(&format!("# HELP {} {help}\n# TYPE {} {}\n", desc.name, desc.name, desc.kind.as_str()));
    for Sample { labels, value } in &family.samples {
        let mut line = |suffix: &str, bound: Option<&str>, value: f64| {
            let labels = label_text(desc, labels, bound);
            page.push_str(&format!("{}{suffix}{labels} {}\n", desc.name, as_go_prints(value)));
        };
        match value {
            Value::Number(number) => line("", None, *number),
            Value::Histogram { buckets, sum, count } => {
                for (bound, below) in buckets {
                    line("_bucket", Some(&as_go_prints(*bound)), float(*below));
                }
                line("_bucket", Some("+Inf"), float(*count));
                line("_sum", None, *sum);
                line("_count", None, float(*count));
            }
        }
    }
}

fn label_text(desc: &Desc, values: &[String], bound: Option<&str>) -> String {
    let own = desc.labels.iter().copied().zip(values.iter().map(String::as_str));
    let pair = |(name, value): (&str, &str)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    };
    let pairs: Vec<String> = own.chain(bound.map(|bound| ("le", bound))).map(pair).collect();
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}

/// Converts a count to a float. Counts above 2^53 lose their last digits, as in Prometheus itself.
#[expect(clippy::cast_precision_loss, reason = "Prometheus stores floats")]
pub fn float(number: u64) -> f64 {
    number as f64
}

/// Returns the number as Go's `%g` prints it: the fewest digits, with an exponent below 1e-4 and from 1e6 on.
fn as_go_prints(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if number == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{number:e}");
    match scientific.split_once('e').and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?))) {
        Some((digits, exponent)) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exponent has at least two digits and appears below 1e-4 and from 1e6 on.
    #[test]
    fn numbers_are_formatted_as_in_go() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-1.0, "-1"),
            (0.005, "0.005"),
            (2.5, "2.5"),
            (10.0, "10"),
            (0.1 + 0.2, "0.30000000000000004"),
            (100_000.0, "100000"),
            (123_456.0, "123456"),
            (999_999.5, "999999.5"),
            (1_000_000.0, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (123_456_789_012.0, "1.23456789012e+11"),
            (-2e6, "-2e+06"),
            (0.0001, "0.0001"),
            (0.000_064, "6.4e-05"),
            (1e-9, "1e-09"),
            (1e100, "1e+100"),
            (5e-324, "5e-324"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(as_go_prints(number), text, "{number:e}");
        }
    }

    const RPCS: Desc = Desc::counter("aws_ebs_csi_rpc_requests_total", "Requests").by(&["code", "method"]);
    const ERRORS: Desc = Desc::counter("cloudprovider_aws_api_request_errors", "Errors").by(&["code", "request"]);
    const SECONDS: Desc =
        Desc::histogram("aws_ebs_csi_api_request_duration_seconds", &[0.5, 10.0], "Time that").by(&["request"]);

    fn sample(labels: &[&str], value: Value) -> Sample {
        Sample { value, ..Sample::number(labels, 0.0) }
    }

    fn families() -> Vec<Family> {
        let histogram = |count| Value::Histogram { buckets: vec![(0.5, 1), (10.0, 3)], sum: 12.0, count };
        vec![
            Family {
                desc: &RPCS,
                samples: vec![
                    Sample::number(&["OK", "a\\b\"c\nd"], 2_000_000.0),
                    Sample::number(&["Aborted", "Probe"], 1.0),
                ],
            },
            Family { desc: &ERRORS, samples: vec![Sample::number(&["X", "DeleteVolume"], 1.0)] },
            Family { desc: &SECONDS, samples: vec![sample(&["DeleteVolume"], histogram(4))] },
            Family { desc: &SECONDS, samples: Vec::new() },
        ]
    }

    fn without_help(page: &str) -> String {
        page.lines().filter(|line| !line.starts_with("# HELP")).map(|line| format!("{line}\n")).collect()
    }

    /// Families are sorted by name, samples by labels, and labels alphabetically with `le` last. Label values are
    /// escaped. Histograms have a `+Inf` bucket, a sum and a count. A counter need not end with `_total`, and families
    /// without samples are omitted.
    #[test]
    fn metrics_text_format_matches_go_client_library() {
        let page = page(families());
        assert_eq!(
            without_help(&page),
            r#"# TYPE aws_ebs_csi_api_request_duration_seconds histogram
aws_ebs_csi_api_request_duration_seconds_bucket{request="DeleteVolume",le="0.5"} 1
aws_ebs_csi_api_request_duration_seconds_bucket{request="DeleteVolume",le="10"} 3
aws_ebs_csi_api_request_duration_seconds_bucket{request="DeleteVolume",le="+Inf"} 4
aws_ebs_csi_api_request_duration_seconds_sum{request="DeleteVolume"} 12
aws_ebs_csi_api_request_duration_seconds_count{request="DeleteVolume"} 4
# TYPE aws_ebs_csi_rpc_requests_total counter
aws_ebs_csi_rpc_requests_total{code="Aborted",method="Probe"} 1
aws_ebs_csi_rpc_requests_total{code="OK",method="a\\b\"c\nd"} 2e+06
# TYPE cloudprovider_aws_api_request_errors counter
cloudprovider_aws_api_request_errors{code="X",request="DeleteVolume"} 1
"#
        );
        assert!(page.starts_with("# HELP aws_ebs_csi_api_request_duration_seconds Time that"), "{page}");
    }
}
