//! One line, as text or as JSON.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, json};
use tracing::{Level, Metadata};

use super::LogFormat;

/// Names under which an event carries its error; JSON has them all as `err`.
const ERROR_FIELDS: [&str; 2] = ["error", "err"];

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

impl Value {
    fn to_text(&self) -> String {
        match self {
            Self::Text(text) => format!("{text:?}"),
            Self::Bool(value) => value.to_string(),
            Self::Signed(value) => value.to_string(),
            Self::Unsigned(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Bool(value) => json!(value),
            Self::Signed(value) => json!(value),
            Self::Unsigned(value) => json!(value),
            Self::Float(value) => json!(value),
        }
    }
}

/// Fields in the order they came; a name set again keeps its place and takes the new value.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    pub(super) fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    pub(super) fn extend(&mut self, other: &Self) {
        for (name, value) in &other.0 {
            self.set(name, value.clone());
        }
    }

    fn message(&self) -> &str {
        self.0
            .iter()
            .find_map(|(name, value)| match value {
                Value::Text(text) if *name == "message" => Some(text.as_str()),
                _ => None,
            })
            .unwrap_or_default()
    }

    fn besides_message(&self) -> impl Iterator<Item = &(&'static str, Value)> {
        self.0.iter().filter(|(name, _)| *name != "message")
    }
}

pub(super) struct Line<'a> {
    pub(super) at: SystemTime,
    pub(super) metadata: &'a Metadata<'a>,
    pub(super) fields: Fields,
}

impl Line<'_> {
    pub(super) fn render(&self, format: LogFormat) -> String {
        match format {
            LogFormat::Text => self.text(),
            LogFormat::Json => self.json(),
        }
    }

    fn text(&self) -> String {
        let mut line = format!(
            "{}{} {:>7} {}] {:?}",
            severity(*self.metadata.level()),
            stamp(since_epoch(self.at)),
            std::process::id(),
            self.caller(),
            self.fields.message()
        );
        for (name, value) in self.fields.besides_message() {
            // Writing to a string cannot fail.
            let _infallible = write!(line, " {name}={}", value.to_text());
        }
        line
    }

    fn json(&self) -> String {
        let mut line = Map::new();
        line.insert("ts".to_owned(), json!(since_epoch(self.at).as_secs_f64() * 1e3));
        line.insert("caller".to_owned(), json!(self.caller()));
        line.insert("msg".to_owned(), json!(self.fields.message()));
        if *self.metadata.level() != Level::ERROR {
            line.insert("v".to_owned(), json!(verbosity(*self.metadata.level())));
        }
        for (name, value) in self.fields.besides_message() {
            let name = if ERROR_FIELDS.contains(name) { "err" } else { name };
            line.insert(name.to_owned(), value.to_json());
        }
        serde_json::Value::Object(line).to_string()
    }

    fn caller(&self) -> String {
        let file = self.metadata.file().map(Path::new).and_then(Path::file_name).unwrap_or_default();
        format!("{}:{}", file.to_string_lossy(), self.metadata.line().unwrap_or_default())
    }
}

fn severity(level: Level) -> char {
    match level {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        _ => 'I',
    }
}

fn verbosity(level: Level) -> u32 {
    match level {
        Level::ERROR | Level::WARN | Level::INFO => 0,
        Level::DEBUG => 4,
        Level::TRACE => 7,
    }
}

fn since_epoch(at: SystemTime) -> Duration {
    at.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// `mmdd hh:mm:ss.uuuuuu`, in UTC.
fn stamp(at: Duration) -> String {
    let seconds = at.as_secs();
    let (month, day) = month_and_day(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{month:02}{day:02} {hour:02}:{minute:02}:{second:02}.{:06}", at.subsec_micros())
}

/// Month and day of the `days`-th day after 1970-01-01 in the Gregorian calendar.
fn month_and_day(mut days: u64) -> (u64, u64) {
    let mut year = 1970;
    while days >= year_length(year) {
        days -= year_length(year);
        year += 1;
    }
    let february = year_length(year) - 337;
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (month, days + 1)
}

fn year_length(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    365 + u64::from(leap)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule: see `crates/ebs-telemetry/src/logging.rs::a_line_carries_the_fields_of_its_spans`
    #[test]
    fn the_stamp_is_month_day_and_time_to_the_microsecond() {
        for (seconds, expected) in [
            (0, "0101 00:00:00.000000"),
            (951_782_399, "0228 23:59:59.000000"),   // 2000-02-28
            (951_782_400, "0229 00:00:00.000000"),   // 2000 is a leap year
            (1_709_251_199, "0229 23:59:59.000000"), // 2024-02-29
            (1_735_689_599, "1231 23:59:59.000000"), // 2024-12-31
            (1_772_323_200, "0301 00:00:00.000000"), // 2026-03-01
            (4_107_542_400, "0301 00:00:00.000000"), // 2100-03-01, no leap year
        ] {
            assert_eq!(stamp(Duration::from_secs(seconds)), expected, "{seconds}");
        }
        assert!(stamp(Duration::from_micros(1_000_042)).ends_with(":01.000042"));
    }

    /// A logged value cannot forge a log line.
    ///
    /// Rule: D-41
    #[test]
    fn a_text_value_cannot_break_the_line() {
        assert_eq!(Value::Text("a\nb \"c\"".to_owned()).to_text(), r#""a\nb \"c\"""#);
    }

    #[test]
    fn a_field_set_again_takes_the_new_value() {
        let mut fields = Fields::default();
        fields.set("volume", Value::Text("old".to_owned()));
        fields.set("size", Value::Unsigned(4));
        fields.set("volume", Value::Text("new".to_owned()));
        let all: Vec<_> = fields.besides_message().map(|(name, value)| format!("{name}={}", value.to_text())).collect();
        assert_eq!(all, ["volume=\"new\"", "size=4"]);
    }
}
