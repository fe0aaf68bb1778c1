//! Calls to EC2: how long the good ones took, how many failed, how many were throttled.
//!
//! The names are those of the reference driver, for the dashboards that exist; its copies under the names of the
//! in-tree cloud provider come with `--deprecated-metrics`. The labels differ among the three (`ebs-cloud.md` E19)
//! and stay so; the consistent series is `aws_ebs_csi_api_requests_total`.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Prometheus' own default bounds, in seconds.
const BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd<'a> {
    /// It did what it was asked.
    Done,
    /// EC2 wants fewer calls.
    Throttled,
    /// EC2 refused it with this code.
    Refused(&'a str),
    /// There was no answer of EC2's; named by what is known.
    NoAnswer(&'a str),
}

impl CallEnd<'_> {
    fn outcome(self) -> String {
        match self {
            Self::Done => "ok".to_owned(),
            Self::Throttled => "throttled".to_owned(),
            Self::Refused(code) => code.to_owned(),
            Self::NoAnswer(what) => what.to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    request: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestOutcome {
    request: String,
    outcome: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestCode {
    request: String,
    code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationName {
    operation_name: String,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seconds;

impl MetricConstructor<Histogram> for Seconds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(BOUNDS)
    }
}

/// The series of calls.
#[derive(Debug)]
pub(super) struct Ec2Calls {
    all: Family<RequestOutcome, Counter>,
    seconds: Family<Request, Histogram, Seconds>,
    errors: Family<RequestCode, Counter>,
    throttles: Family<OperationName, Counter>,
    held_back: Family<Request, Counter<f64, AtomicU64>>,
    /// The old name of the errors has no `_total`, which no counter of the text format can do without.
    deprecated_errors: Option<Family<RequestCode, Gauge>>,
}

impl Ec2Calls {
    pub(super) fn register(registry: &mut Registry, with_deprecated: bool) -> Self {
        let all = Family::default();
        let seconds = Family::<Request, Histogram, Seconds>::new_with_constructor(Seconds);
        let (errors, throttles) = (Family::default(), Family::<OperationName, Counter>::default());
        registry.register("aws_ebs_csi_api_requests", "EC2 calls ended, by action and outcome", all.clone());
        let help = "Seconds that successful EC2 calls took";
        registry.register("aws_ebs_csi_api_request_duration_seconds", help, seconds.clone());
        let help = "EC2 calls refused, by code, throttles not counted";
        registry.register("aws_ebs_csi_api_request_errors", help, errors.clone());
        registry.register("aws_ebs_csi_api_request_throttles", "EC2 calls throttled", throttles.clone());
        let held_back = Family::default();
        let help = "Seconds that EC2 calls were held back, because EC2 is believed to take no more";
        registry.register("aws_ebs_csi_api_held_back_seconds", help, held_back.clone());
        let deprecated_errors = with_deprecated.then(|| {
            let old = "The same under the name of the in-tree cloud provider";
            registry.register("cloudprovider_aws_api_request_duration_seconds", old, seconds.clone());
            registry.register("cloudprovider_aws_api_throttled_requests", old, throttles.clone());
            let errors = Family::default();
            registry.register("cloudprovider_aws_api_request_errors", old, errors.clone());
            errors
        });
        Self { all, seconds, errors, throttles, held_back, deprecated_errors }
    }

    /// Makes the duration series exist at zero, so that a rate over them is known from the start.
    pub(super) fn expect(&self, actions: &[&str]) {
        for action in actions {
            drop(self.seconds.get_or_create(&Request { request: (*action).to_owned() }));
        }
    }

    pub(super) fn count_wait(&self, action: &str, time: Duration) {
        self.held_back.get_or_create(&Request { request: action.to_owned() }).inc_by(time.as_secs_f64());
    }

    pub(super) fn count(&self, action: &str, end: CallEnd<'_>, took: Duration) {
        let request = action.to_owned();
        self.all.get_or_create(&RequestOutcome { request: request.clone(), outcome: end.outcome() }).inc();
        match end {
            CallEnd::Done => self.seconds.get_or_create(&Request { request }).observe(took.as_secs_f64()),
            CallEnd::Throttled => {
                self.throttles.get_or_create(&OperationName { operation_name: request }).inc();
            }
            CallEnd::Refused(code) => {
                let labels = RequestCode { request, code: code.to_owned() };
                self.errors.get_or_create(&labels).inc();
                if let Some(deprecated) = &self.deprecated_errors {
                    deprecated.get_or_create(&labels).inc();
                }
            }
            CallEnd::NoAnswer(_) => {}
        }
    }
}
