//! Replies of the SDK as types of the port. What must be there and is not is an error, never a default.

pub(crate) mod attachment;
pub(crate) mod instance;
pub(crate) mod snapshot;
pub(crate) mod volume;

use std::time::SystemTime;

use aws_sdk_ec2::types::Tag;
use aws_smithy_types::DateTime;
use ebs_types::{IdError, Tags};

/// A reply that lacks something, or holds something that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Incomplete(pub(crate) String);

impl Incomplete {
    pub(crate) fn lacks(what: &str) -> Self {
        Self(format!("no {what}"))
    }
}

pub(crate) type Read<T> = Result<T, Incomplete>;

/// What must be there.
pub(crate) fn required<T>(value: Option<T>, what: &str) -> Read<T> {
    value.ok_or_else(|| Incomplete::lacks(what))
}

/// An id or name that must be there.
pub(crate) fn required_id<T>(text: Option<&str>, what: &str, parse: fn(&str) -> Result<T, IdError>) -> Read<T> {
    required(optional_id(text, what, parse)?, what)
}

/// An id or name that may be absent (EC2 writes an empty element) but must be one when it is there.
pub(crate) fn optional_id<T>(text: Option<&str>, what: &str, parse: fn(&str) -> Result<T, IdError>) -> Read<Option<T>> {
    match text {
        None | Some("") => Ok(None),
        Some(text) => parse(text).map(Some).map_err(|e| Incomplete(format!("{what}: {e}"))),
    }
}

/// A count or size, where there is one.
pub(crate) fn optional_number(value: Option<i32>, what: &str) -> Read<Option<u32>> {
    value.map(|n| u32::try_from(n).map_err(|_| Incomplete(format!("{what} is {n}")))).transpose()
}

/// A reply must be about what was asked: an answer about another object is none.
pub(crate) fn about<T: PartialEq + std::fmt::Display>(answered: &T, asked: &T) -> Read<()> {
    if answered == asked { Ok(()) } else { Err(Incomplete(format!("it is about {answered}, not {asked}"))) }
}

/// A listing by ids must not name others.
pub(crate) fn among<T, I: PartialEq + std::fmt::Display>(items: &[T], id: impl Fn(&T) -> &I, asked: &[I]) -> Read<()> {
    match items.iter().map(id).find(|id| !asked.contains(id)) {
        None => Ok(()),
        Some(stranger) => Err(Incomplete(format!("it names {stranger}, which nobody asked for"))),
    }
}

pub(crate) fn text(value: Option<String>) -> Option<String> {
    value.filter(|text| !text.is_empty())
}

pub(crate) fn time(value: Option<DateTime>) -> Option<SystemTime> {
    value.and_then(|t| SystemTime::try_from(t).ok())
}

pub(crate) fn tags(list: Option<Vec<Tag>>) -> Read<Tags> {
    list.unwrap_or_default()
        .into_iter()
        .map(|tag| Ok((required(tag.key, "key of a tag")?, tag.value.unwrap_or_default())))
        .collect()
}
