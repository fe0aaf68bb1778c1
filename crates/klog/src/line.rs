//! One line, as text or as JSON.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::{Level, Metadata};

use super::{LogFormat, quote, verbosity};

/// Names under which an event carries its error; JSON has them all as `err`.
const ERROR_FIELDS: [&str; 2] = ["error", "err"];

/// Keys of a JSON line that are not an event's to set.
const JSON_KEYS: [&str; 4] = ["ts", "caller", "msg", "v"];

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
            Self::Text(text) => quote::go(text),
            Self::Bool(value) => value.to_string(),
            Self::Signed(value) => value.to_string(),
            Self::Unsigned(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
        }
    }

    fn to_json(&self) -> String {
        match self {
            Self::Text(text) => quote::json(text),
            // JSON has no such numbers.
            Self::Float(value) if !value.is_finite() => quote::json(&value.to_string()),
            other => other.to_text(),
        }
    }
}

/// Fields in the order they came; a name set again keeps its place and takes the new value. Names with a dot are attributes of
/// traces and no business of a line.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    pub(super) fn set(&mut self, name: &'static str, value: Value) {
        if !Self::takes(name) {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Asked before a value is made text.
    pub(super) fn takes(name: &str) -> bool {
        !name.contains('.')
    }

    pub(super) fn extend(&mut self, other: &Self) {
        for (name, value) in &other.0 {
            self.set(name, value.clone());
        }
    }

    /// Only the message and those.
    pub(super) fn keep(&mut self, names: &[&str]) {
        self.0.retain(|(name, _)| *name == "message" || names.contains(name));
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
            "{}{} {:>7} {}] {}",
            severity(*self.metadata.level()),
            stamp(since_epoch(self.at)),
            std::process::id(),
            self.caller(),
            quote::go(self.fields.message())
        );
        for (name, value) in self.fields.besides_message() {
            // Writing to a string cannot fail.
            let _infallible = write!(line, " {name}={}", value.to_text());
        }
        line
    }

    /// The keys stand in the order in which klog's JSON has them.
    fn json(&self) -> String {
        let mut line = format!(
            "{{\"ts\":{:.3},\"caller\":{},\"msg\":{}",
            since_epoch(self.at).as_secs_f64() * 1e3,
            quote::json(&self.caller()),
            quote::json(self.fields.message())
        );
        if *self.metadata.level() != Level::ERROR {
            let _infallible = write!(line, ",\"v\":{}", verbosity::of(self.metadata));
        }
        let mut has_error = false;
        for (name, value) in self.fields.besides_message() {
            let name = match *name {
                // Only the first: a key stands once in an object.
                error if ERROR_FIELDS.contains(&error) && !has_error => {
                    has_error = true;
                    "err"
                }
                taken if ERROR_FIELDS.contains(&taken) || JSON_KEYS.contains(&taken) => {
                    let _infallible = write!(line, ",\"{taken}_\":{}", value.to_json());
                    continue;
                }
                name => name,
            };
            let _infallible = write!(line, ",\"{name}\":{}", value.to_json());
        }
        line.push('}');
        line
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
    use proptest::prelude::*;

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

    fn line<'a>(metadata: &'a Metadata<'a>, message: &str, value: &str) -> Line<'a> {
        let mut fields = Fields::default();
        fields.set("message", Value::Text(message.to_owned()));
        fields.set("volume", Value::Text(value.to_owned()));
        fields.set("size", Value::Unsigned(4));
        Line { at: UNIX_EPOCH + Duration::from_micros(1_000_042), metadata, fields }
    }

    fn metadata() -> &'static Metadata<'static> {
        static CALLSITE: tracing::callsite::DefaultCallsite = tracing::callsite::DefaultCallsite::new(&METADATA);
        static METADATA: Metadata<'static> = tracing::metadata! {
            name: "test",
            target: "klog",
            level: Level::INFO,
            fields: &["message"],
            callsite: &CALLSITE,
            kind: tracing::metadata::Kind::EVENT
        };
        &METADATA
    }

    /// A line as its readers have it: the message and the value of `volume`, unquoted; `None` when it has another shape.
    fn read(line: &str) -> Option<(String, String)> {
        let (_, rest) = line.split_once("] \"")?;
        let (message, rest) = unquote(rest)?;
        let (value, rest) = unquote(rest.strip_prefix(" volume=\"")?)?;
        (rest == " size=4").then_some((message, value))
    }

    /// Up to the closing quote, with Go's escapes resolved, and what follows.
    fn unquote(text: &str) -> Option<(String, &str)> {
        let (mut plain, mut rest) = (String::new(), text);
        loop {
            let c = rest.chars().next()?;
            rest = &rest[c.len_utf8()..];
            match c {
                '"' => return Some((plain, rest)),
                '\\' => {
                    let kind = rest.chars().next()?;
                    rest = &rest[1..];
                    let digits = match kind {
                        'x' => 2,
                        'u' => 4,
                        'U' => 8,
                        _ => 0,
                    };
                    if digits > 0 {
                        plain.push(char::from_u32(u32::from_str_radix(rest.get(..digits)?, 16).ok()?)?);
                        rest = &rest[digits..];
                    } else {
                        let at = "abtnvfr".find(kind);
                        plain.push(at.map_or(kind, |at| char::from(b'\x07' + u8::try_from(at).unwrap())));
                    }
                }
                c => plain.push(c),
            }
        }
    }

    proptest! {
        /// No logged value forges a line or a field: whatever it holds, a line stays one line, of the same fields, and readers get
        /// the value back.
        ///
        /// Rule: D-41
        #[test]
        fn no_value_forges_a_line_or_a_field(message in any::<String>(), value in "\\PC*|[\\n\\r\"\\\\ =\\]x]*|.*") {
            let line = line(metadata(), &message, &value);
            let text = line.render(LogFormat::Text);
            prop_assert!(!text.chars().any(char::is_control), "{text}");
            prop_assert_eq!(read(&text), Some((message.clone(), value.clone())), "{}", text);
            let json = line.render(LogFormat::Json);
            prop_assert!(!json.chars().any(char::is_control), "{json}");
            let read: serde_json::Value = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(read["msg"].as_str(), Some(message.as_str()));
            prop_assert_eq!(read["volume"].as_str(), Some(value.as_str()));
            prop_assert_eq!(read.as_object().unwrap().len(), 6, "{}", json);
        }
    }

    #[test]
    fn a_text_line_has_klogs_shape_and_a_json_line_klogs_keys_in_its_order() {
        let pid = std::process::id();
        let line = line(metadata(), "created", "vol-1");
        let text = line.render(LogFormat::Text);
        assert!(text.starts_with(&format!("I0101 00:00:01.000042 {pid:>7} line.rs:")), "{text}");
        assert!(text.ends_with("] \"created\" volume=\"vol-1\" size=4"), "{text}");
        let json = line.render(LogFormat::Json);
        assert!(json.starts_with("{\"ts\":1000.042,\"caller\":\"line.rs:"), "{json}");
        assert!(json.ends_with("\"msg\":\"created\",\"v\":0,\"volume\":\"vol-1\",\"size\":4}"), "{json}");
    }

    #[test]
    fn a_key_stands_once_in_a_json_line() {
        let mut fields = Fields::default();
        for name in ["message", "error", "err", "v", "msg"] {
            fields.set(name, Value::Text(name.to_owned()));
        }
        fields.set("odd", Value::Float(f64::NAN));
        let json = Line { at: UNIX_EPOCH, metadata: metadata(), fields }.render(LogFormat::Json);
        let keys = "\"v\":0,\"err\":\"error\",\"err_\":\"err\",\"v_\":\"v\",\"msg_\":\"msg\",\"odd\":\"NaN\"}";
        assert!(json.ends_with(keys), "{json}");
        serde_json::from_str::<serde_json::Value>(&json).unwrap();
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
