//! Calls to EC2: how long the good ones took, how many failed, how many were throttled.
//!
//! The names are those of the reference driver, for the dashboards that exist; its copies under the names of the
//! in-tree cloud provider come with `--deprecated-metrics`. The labels differ among the three (`ebs-cloud.md` E19)
//! and stay so; the consistent series is `aws_ebs_csi_api_requests_total`.

use std::time::Duration;

use super::exposition::Family;
use super::store::{Histograms, Numbers};
use super::table;

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

impl<'a> CallEnd<'a> {
    fn outcome(self) -> &'a str {
        match self {
            Self::Done => "ok",
            Self::Throttled => "throttled",
            Self::Refused(code) => code,
            Self::NoAnswer(what) => what,
        }
    }
}

/// The series of calls.
#[derive(Debug)]
pub(super) struct Ec2Calls {
    all: Numbers,
    seconds: Histograms,
    errors: Numbers,
    throttles: Numbers,
    held_back: Numbers,
    with_deprecated: bool,
}

impl Ec2Calls {
    /// Those of the expected actions exist at zero from the start, so that a rate over their durations is known.
    pub(super) fn new(expected_actions: &[&str], with_deprecated: bool) -> Self {
        let seconds = Histograms::new(&table::EC2_SECONDS);
        for action in expected_actions {
            seconds.expect(&[action]);
        }
        Self {
            all: Numbers::new(&table::EC2_CALLS),
            seconds,
            errors: Numbers::new(&table::EC2_ERRORS),
            throttles: Numbers::new(&table::EC2_THROTTLES),
            held_back: Numbers::new(&table::HELD_BACK),
            with_deprecated,
        }
    }

    pub(super) fn count_wait(&self, action: &str, time: Duration) {
        self.held_back.add(&[action], time.as_secs_f64());
    }

    pub(super) fn count(&self, action: &str, end: CallEnd<'_>, took: Duration) {
        self.all.add(&[end.outcome(), action], 1.0);
        match end {
            CallEnd::Done => self.seconds.observe(&[action], took.as_secs_f64()),
            CallEnd::Throttled => self.throttles.add(&[action], 1.0),
            CallEnd::Refused(code) => self.errors.add(&[code, action], 1.0),
            CallEnd::NoAnswer(_) => {}
        }
    }

    pub(super) fn families(&self) -> Vec<Family> {
        let mut families = vec![
            self.all.family(),
            self.seconds.family(),
            self.errors.family(),
            self.throttles.family(),
            self.held_back.family(),
        ];
        if self.with_deprecated {
            families.push(self.seconds.family_as(&table::OLD_EC2_SECONDS));
            families.push(self.errors.family_as(&table::OLD_EC2_ERRORS));
            families.push(self.throttles.family_as(&table::OLD_EC2_THROTTLES));
        }
        families
    }
}
