//! Calls to EC2: how long successful calls took, and the number of failed and throttled calls.
//!
//! The names and the inconsistent labels are the reference driver's, so that existing dashboards work.
//! `--deprecated-metrics` adds copies under the names of the in-tree cloud provider.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use component_base::metrics::{Family, Series};

use super::table;

/// The label for texts that are not AWS error codes, and for new codes after the first [`MOST_CODES`].
const OTHER: &str = "other";
/// The longest text that becomes a label, in characters. EC2's longest codes have about 50.
const LONGEST_CODE: usize = 64;
/// The maximum number of codes that become labels: a proxy that answers in AWS's place could invent any number.
const MOST_CODES: usize = 200;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd<'a> {
    Done,
    Throttled,
    /// EC2 rejected the call with this code.
    Refused(&'a str),
    /// EC2 did not answer. The text names the cause, if it is known.
    NoAnswer(&'a str),
}

/// Returns true for texts of the form `InvalidVolume.NotFound`.
fn is_shaped_like_a_code(text: &str) -> bool {
    text.len() <= LONGEST_CODE
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

#[derive(Debug)]
pub(super) struct Ec2Calls {
    all: Series,
    seconds: Series,
    errors: Series,
    throttles: Series,
    held_back: Series,
    /// The error codes that are labels.
    codes: Mutex<BTreeSet<String>>,
    with_deprecated: bool,
}

impl Ec2Calls {
    /// Creates the metrics. The durations of expected actions start at zero, so that their rates are defined.
    pub(super) fn new(expected_actions: &[&str], with_deprecated: bool) -> Self {
        let seconds = Series::new(&table::EC2_SECONDS);
        expected_actions.iter().for_each(|action| seconds.expect(&[action]));
        Self {
            all: Series::new(&table::EC2_CALLS),
            seconds,
            errors: Series::new(&table::EC2_ERRORS),
            throttles: Series::new(&table::EC2_THROTTLES),
            held_back: Series::new(&table::HELD_BACK),
            codes: Mutex::default(),
            with_deprecated,
        }
    }

    pub(super) fn count_wait(&self, action: &str, time: Duration) {
        self.held_back.add(&[action], time.as_secs_f64());
    }

    pub(super) fn count(&self, action: &str, end: CallEnd<'_>, took: Duration) {
        let outcome = match end {
            CallEnd::Done => {
                self.seconds.observe(&[action], took.as_secs_f64());
                "ok"
            }
            CallEnd::Throttled => {
                self.throttles.add(&[action], 1.0);
                "throttled"
            }
            CallEnd::Refused(code) => {
                let code = self.label(code);
                self.errors.add(&[code, action], 1.0);
                code
            }
            CallEnd::NoAnswer(what) => what,
        };
        self.all.add(&[outcome, action], 1.0);
    }

    fn label<'a>(&self, code: &'a str) -> &'a str {
        let mut known = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_shaped_like_a_code(code) || (known.len() >= MOST_CODES && !known.contains(code)) {
            return OTHER;
        }
        known.insert(code.to_owned());
        code
    }

    pub(super) fn families(&self) -> Vec<Family> {
        let all = [&self.all, &self.seconds, &self.errors, &self.throttles, &self.held_back].map(Series::family);
        let mut families = Vec::from(all);
        if self.with_deprecated {
            families.push(self.seconds.family_as(&table::OLD_EC2_SECONDS));
            families.push(self.errors.family_as(&table::OLD_EC2_ERRORS));
            families.push(self.throttles.family_as(&table::OLD_EC2_THROTTLES));
        }
        families
    }
}
