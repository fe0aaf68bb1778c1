//! Requests in EC2's Query protocol: a form with an action and its parameters. The items of a list are numbered from 1.
//!
//! Decision: `docs/dev/decisions/0010-write-our-own-ec2-requests.md`.

use std::fmt::{self, Write};
use std::time::SystemTime;

use aws_smithy_types::date_time::{DateTime, Format};
use ebs_ec2::{Action, PageRequest, Tags};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub(crate) const API_VERSION: &str = "2016-11-15";

/// All characters except the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Clone)]
pub(crate) struct Query {
    pub(crate) action: Action,
    pub(crate) dry_run: bool,
    body: String,
    filters: usize,
}

impl Query {
    pub(crate) fn new(action: Action) -> Self {
        Self { action, dry_run: false, body: format!("Action={action}&Version={API_VERSION}"), filters: 0 }
    }

    pub(crate) fn maybe_dry_run(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }.maybe("DryRun", dry_run.then_some(true))
    }

    pub(crate) fn into_body(self) -> String {
        self.body
    }

    fn put(&mut self, name: fmt::Arguments<'_>, value: &str) {
        // Writing to a string cannot fail.
        let _ = write!(self.body, "&{name}={}", utf8_percent_encode(value, RESERVED));
    }

    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.put(format_args!("{name}"), &value.to_string());
        self
    }

    pub(crate) fn maybe(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds an optional number. A number that exceeds EC2's maximum (31 bits) becomes the maximum, which EC2 refuses.
    pub(crate) fn number(self, name: &str, value: impl Into<Option<u32>>) -> Self {
        self.maybe(name, value.into().map(|n| i32::try_from(n).unwrap_or(i32::MAX)))
    }

    pub(crate) fn maybe_time(self, name: &str, value: Option<SystemTime>) -> Self {
        // If the format cannot represent the time (a five-digit year), send an invalid text, which EC2 refuses.
        let text =
            |time| DateTime::from(time).fmt(Format::DateTime).unwrap_or_else(|_| "a time out of range".to_owned());
        self.maybe(name, value.map(text))
    }

    pub(crate) fn list<V: ToString>(mut self, name: &str, values: impl IntoIterator<Item = V>) -> Self {
        for (n, value) in (1..).zip(values) {
            self.put(format_args!("{name}.{n}"), &value.to_string());
        }
        self
    }

    /// Adds a filter that matches exactly these values. Escapes EC2's wildcards in them.
    pub(crate) fn filter<V: AsRef<str>>(mut self, filter: &str, values: impl IntoIterator<Item = V>) -> Self {
        self.filters += 1;
        let n = self.filters;
        self.put(format_args!("Filter.{n}.Name"), filter);
        for (m, value) in (1..).zip(values) {
            self.put(format_args!("Filter.{n}.Value.{m}"), &literal(value.as_ref()));
        }
        self
    }

    /// Adds tags for a resource that the call creates. Adds nothing if there are no tags.
    pub(crate) fn tags_of(self, resource: &str, tags: &Tags) -> Self {
        let resource = Some(resource).filter(|_| !tags.is_empty());
        self.maybe("TagSpecification.1.ResourceType", resource).tags("TagSpecification.1.Tag", tags)
    }

    pub(crate) fn tags(mut self, name: &str, tags: &Tags) -> Self {
        for (n, (key, value)) in (1..).zip(tags) {
            self.put(format_args!("{name}.{n}.Key"), key);
            self.put(format_args!("{name}.{n}.Value"), value);
        }
        self
    }

    pub(crate) fn tag_keys(mut self, keys: &[String]) -> Self {
        for (n, key) in (1..).zip(keys) {
            self.put(format_args!("Tag.{n}.Key"), key);
        }
        self
    }

    pub(crate) fn page(self, page: &PageRequest) -> Self {
        self.number("MaxResults", page.max_results).maybe("NextToken", page.token.as_ref())
    }
}

/// The SDK's runtime may log the request, so the debug output omits the values.
impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query").finish_non_exhaustive()
    }
}

fn literal(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '*' | '?' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(query: Query) -> Vec<(String, String)> {
        let body = query.into_body();
        let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned();
        let pairs = body.split('&').map(|pair| pair.split_once('=').unwrap());
        pairs.map(|(name, value)| (name.to_owned(), decoded(value))).skip(2).collect()
    }

    #[test]
    fn separators_in_a_value_are_escaped() {
        let query = Query::new(Action::DeleteVolume).with("A", "a&b=c +%ü\n~").maybe("B", None::<u32>);
        assert_eq!(query.clone().into_body(), "Action=DeleteVolume&Version=2016-11-15&A=a%26b%3Dc%20%2B%25%C3%BC%0A~");
        assert_eq!(form(query), [("A".to_owned(), "a&b=c +%ü\n~".to_owned())]);
    }
}
