//! A YAML subset for the examples of the documentation: maps, lists and scalars.

use saphyr_parser::{Event, Parser, ScalarStyle};

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Yaml {
    /// The text, and whether Kubernetes reads it as a string.
    Scalar {
        text: String,
        is_string: bool,
    },
    List(Vec<Yaml>),
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    /// Parses all documents of a text.
    pub(super) fn documents(text: &str) -> Vec<Self> {
        let mut events = Parser::new_from_str(text).map(|event| event.expect("the example is YAML").0);
        let mut documents = Vec::new();
        while let Some(event) = events.next() {
            match event {
                Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {}
                first => documents.push(value(first, &mut events)),
            }
        }
        documents
    }

    /// Returns the value at a path of keys.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Self> {
        let [key, rest @ ..] = path else { return Some(self) };
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(k, _)| k == key)?.1.at(rest)
    }

    /// Returns the text at a path, or an empty text when it is missing.
    pub(super) fn text(&self, path: &[&str]) -> &str {
        match self.at(path) {
            Some(Self::Scalar { text, .. }) => text,
            _ => "",
        }
    }

    /// Returns the map of strings at a path. Panics for a value that Kubernetes would not read as a string.
    pub(super) fn strings(&self, path: &[&str]) -> Vec<(String, String)> {
        let Some(Self::Map(entries)) = self.at(path) else { return Vec::new() };
        let entries = entries.iter().map(|(key, value)| match value {
            Self::Scalar { text, is_string: true } => (key.clone(), text.clone()),
            other => panic!("{path:?}: {key} must be a quoted string: {other:?}"),
        });
        entries.collect()
    }
}

fn value<'a>(first: Event<'a>, events: &mut impl Iterator<Item = Event<'a>>) -> Yaml {
    match first {
        Event::Scalar(text, style, _, _) => {
            let is_string = style != ScalarStyle::Plain || !is_other_than_string(&text);
            Yaml::Scalar { text: text.into_owned(), is_string }
        }
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match next(events) {
                    Event::SequenceEnd => return Yaml::List(items),
                    item => items.push(value(item, events)),
                }
            }
        }
        Event::MappingStart(..) => {
            let mut entries = Vec::new();
            loop {
                match next(events) {
                    Event::MappingEnd => return Yaml::Map(entries),
                    Event::Scalar(key, ..) => {
                        let first = next(events);
                        entries.push((key.into_owned(), value(first, events)));
                    }
                    other => panic!("no example needs such a key: {other:?}"),
                }
            }
        }
        other => panic!("no example needs {other:?}"),
    }
}

fn next<'a>(events: &mut impl Iterator<Item = Event<'a>>) -> Event<'a> {
    events.next().expect("the parser ends what it begins")
}

/// Returns true for unquoted numbers, booleans and null.
fn is_other_than_string(text: &str) -> bool {
    text.parse::<f64>().is_ok()
        || ["", "~", "null", "true", "false", "yes", "no", "on", "off"].contains(&text.to_lowercase().as_str())
}
