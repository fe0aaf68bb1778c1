//! Formats one log line, as text or JSON.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::{Level, Metadata};

use super::{LogFormat, Shape, quote, utc, verbosity};

/// The names of an event's error field. JSON writes each of them as `err`.
const ERROR_FIELDS: [&str; 2] = ["error", "err"];

/// The keys of a JSON line that an event's fields must not set.
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
            // JSON has no representation for infinite numbers and NaN.
            Self::Float(value) if !value.is_finite() => quote::json(&value.to_string()),
            other => other.to_text(),
        }
    }
}

/// Fields in order of appearance. A field that is set again keeps its place. Trace attributes (`a.b`) are left out.
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

    /// Returns true if a field with this name appears in the line. Called before the value is formatted.
    pub(super) fn takes(name: &str) -> bool {
        !name.contains('.')
    }

    pub(super) fn extend(&mut self, other: &Self) {
        for (name, value) in &other.0 {
            self.set(name, value.clone());
        }
    }

    /// Removes all fields except the message and these.
    pub(super) fn keep(&mut self, names: &[&str]) {
        self.0.retain(|(name, _)| *name == "message" || names.contains(name));
    }

    fn message(&self) -> &str {
        match self.0.iter().find(|(name, _)| *name == "message") {
            Some((_, Value::Text(text))) => text,
            _ => "",
        }
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
    pub(super) fn render(&self, format: LogFormat, shape: Shape) -> String {
        match format {
            LogFormat::Text => self.text(shape),
            LogFormat::Json => self.json(),
        }
    }

    fn text(&self, shape: Shape) -> String {
        let mut line = String::new();
        if shape.header {
            let letter = severity(*self.metadata.level());
            let (stamp, caller) = (utc(self.at, "%m%d %H:%M:%S.%6f"), self.caller(shape.directory));
            // Writing to a string cannot fail.
            let _infallible = write!(line, "{letter}{stamp} {:>7} {caller}] ", std::process::id());
        }
        let message = self.fields.message();
        line.push_str(&if shape.quoted { quote::go(message) } else { quote::printed(message) });
        for (name, value) in self.fields.besides_message() {
            let _infallible = write!(line, " {name}={}", value.to_text());
        }
        line
    }

    /// Returns the line as JSON, with the keys in klog's order.
    fn json(&self) -> String {
        let mut line = format!(
            "{{\"ts\":{:.3},\"caller\":{},\"msg\":{}",
            self.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1e3,
            quote::json(&self.caller(false)),
            quote::json(self.fields.message())
        );
        if *self.metadata.level() != Level::ERROR {
            let _infallible = write!(line, ",\"v\":{}", verbosity::of(self.metadata));
        }
        let mut has_error = false;
        for (name, value) in self.fields.besides_message() {
            let name = match *name {
                // Write only the first error, because an object may have a key only once.
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

    /// Returns the source file and line. Includes the file's directory if requested.
    fn caller(&self, directory: bool) -> String {
        let line = self.metadata.line().unwrap_or_default();
        let mut parts = self.metadata.file().unwrap_or_default().rsplit(['/', '\\']);
        match (parts.next().unwrap_or_default(), parts.next().filter(|_| directory)) {
            (file, Some(directory)) => format!("{directory}/{file}:{line}"),
            (file, None) => format!("{file}:{line}"),
        }
    }
}

fn severity(level: Level) -> char {
    match level {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        _ => 'I',
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

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
            target: "component_base",
            level: Level::INFO,
            fields: &["message"],
            callsite: &CALLSITE,
            kind: tracing::metadata::Kind::EVENT
        };
        &METADATA
    }

    /// Parses a line as a reader of the log does. Returns its message and the value of `volume`, unquoted, or `None` if
    /// the line has another shape.
    fn read(line: &str) -> Option<(String, String)> {
        let (_, rest) = line.split_once("] \"")?;
        let (message, rest) = unquote(rest)?;
        let (value, rest) = unquote(rest.strip_prefix(" volume=\"")?)?;
        (rest == " size=4").then_some((message, value))
    }

    /// Returns the text up to the closing quote, with Go's escapes resolved, and the rest of the line.
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
        /// Whatever a logged value contains, it remains on its line, the line keeps its fields, and a reader gets the
        /// value unchanged.
        #[test]
        fn logged_value_cannot_forge_a_line_or_a_field(message in any::<String>(), value in "\\PC*|[\\n\\r\"\\\\ =\\]x]*|.*") {
            let line = line(metadata(), &message, &value);
            let text = line.render(LogFormat::Text, Shape::QUOTED);
            prop_assert!(!text.chars().any(char::is_control), "{text}");
            prop_assert_eq!(read(&text), Some((message.clone(), value.clone())), "{}", text);
            let json = line.render(LogFormat::Json, Shape::QUOTED);
            prop_assert!(!json.chars().any(char::is_control), "{json}");
            let read: serde_json::Value = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(read["msg"].as_str(), Some(message.as_str()));
            prop_assert_eq!(read["volume"].as_str(), Some(value.as_str()));
            prop_assert_eq!(read.as_object().unwrap().len(), 6, "{}", json);
            let printed = line.render(LogFormat::Text, Shape::PRINTED);
            prop_assert!(!printed.chars().any(char::is_control), "{printed}");
        }
    }

    #[test]
    fn lines_have_the_shape_and_key_order_of_klog() {
        let pid = std::process::id();
        let line = line(metadata(), "created", "vol-1");
        let text = line.render(LogFormat::Text, Shape::QUOTED);
        assert!(text.starts_with(&format!("I0101 00:00:01.000042 {pid:>7} line.rs:")), "{text}");
        assert!(text.ends_with("] \"created\" volume=\"vol-1\" size=4"), "{text}");
        let json = line.render(LogFormat::Json, Shape::QUOTED);
        assert!(json.starts_with("{\"ts\":1000.042,\"caller\":\"line.rs:"), "{json}");
        assert!(json.ends_with("\"msg\":\"created\",\"v\":0,\"volume\":\"vol-1\",\"size\":4}"), "{json}");
    }

    /// Lines of klog's older functions have no quotes. Flags control the header and the directory.
    #[test]
    fn printed_message_is_unquoted_and_header_is_optional() {
        let line = line(metadata(), "Working directories: [C:\\a \"b\"]\r\nE0101 forged", "vol-1");
        let printed = line.render(LogFormat::Text, Shape { header: false, ..Shape::PRINTED });
        assert_eq!(printed, "Working directories: [C:\\a \"b\"]\\r\\nE0101 forged volume=\"vol-1\" size=4");
        let with_directory = line.render(LogFormat::Text, Shape { directory: true, ..Shape::PRINTED });
        assert!(with_directory.contains(" logs/line.rs:") && with_directory.contains("] Working"), "{with_directory}");
        assert!(line.render(LogFormat::Text, Shape::PRINTED).contains(" line.rs:"));
    }

    #[test]
    fn json_line_has_each_key_once() {
        let mut fields = Fields::default();
        for name in ["message", "error", "err", "v", "msg"] {
            fields.set(name, Value::Text(name.to_owned()));
        }
        fields.set("odd", Value::Float(f64::NAN));
        let json = Line { at: UNIX_EPOCH, metadata: metadata(), fields }.render(LogFormat::Json, Shape::QUOTED);
        let keys = "\"v\":0,\"err\":\"error\",\"err_\":\"err\",\"v_\":\"v\",\"msg_\":\"msg\",\"odd\":\"NaN\"}";
        assert!(json.ends_with(keys), "{json}");
        serde_json::from_str::<serde_json::Value>(&json).unwrap();
    }

    #[test]
    fn setting_a_field_again_replaces_its_value() {
        let mut fields = Fields::default();
        fields.set("volume", Value::Text("old".to_owned()));
        fields.set("size", Value::Unsigned(4));
        fields.set("volume", Value::Text("new".to_owned()));
        let all: Vec<_> = fields.besides_message().map(|(name, value)| format!("{name}={}", value.to_text())).collect();
        assert_eq!(all, ["volume=\"new\"", "size=4"]);
    }
}
