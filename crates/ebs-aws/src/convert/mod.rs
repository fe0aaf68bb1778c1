//! Replies of EC2 as types of the port. What must be there and is not is an error, never a default.

pub(crate) mod attachment;
pub(crate) mod instance;
pub(crate) mod snapshot;
pub(crate) mod volume;

use ebs_ec2::Page;
use ebs_types::{IdError, Tags};

use crate::reply::{Element, Incomplete, Read};

/// What must be there.
pub(crate) fn required<T>(value: Option<T>, what: &str) -> Read<T> {
    value.ok_or_else(|| Incomplete::lacks(what))
}

/// A word that must be there.
pub(crate) fn required_word(element: Element<'_>, name: &str, what: &str) -> Read<String> {
    required(element.word(name)?, what)
}

/// An id or name that must be there.
pub(crate) fn required_id<T>(
    element: Element<'_>,
    name: &str,
    what: &str,
    parse: fn(&str) -> Result<T, IdError>,
) -> Read<T> {
    required(optional_id(element, name, what, parse)?, what)
}

/// An id or name that may be absent (EC2 writes an empty element) but must be one when it is there.
pub(crate) fn optional_id<T>(
    element: Element<'_>,
    name: &str,
    what: &str,
    parse: fn(&str) -> Result<T, IdError>,
) -> Read<Option<T>> {
    let text = element.word(name)?;
    text.map(|text| parse(&text).map_err(|e| Incomplete(format!("{what}: {e}")))).transpose()
}

/// A count or size, where there is one. EC2's have 32 bits with a sign: what is beyond them, or below zero, is none.
pub(crate) fn optional_number(element: Element<'_>, name: &str, what: &str) -> Read<Option<u32>> {
    let number = element.value::<i32>(name)?;
    number.map(|n| u32::try_from(n).map_err(|_| Incomplete(format!("{what} is {n}")))).transpose()
}

/// A listing of one page, whose list must be there, if empty.
pub(crate) fn page<T>(
    reply: Element<'_>,
    list: &str,
    what: &str,
    item: impl Fn(Element<'_>) -> Read<T>,
) -> Read<Page<T>> {
    let items = required(reply.list(list)?, what)?.map(item).collect::<Read<Vec<T>>>()?;
    Ok(Page { items, next: reply.word("nextToken")? })
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

/// The tags of a resource; none where there is no list of them.
pub(crate) fn tags(resource: Element<'_>) -> Read<Tags> {
    let Some(list) = resource.list("tagSet")? else { return Ok(Tags::new()) };
    let tag =
        |tag: Element<'_>| Ok((required(tag.text("key")?, "key of a tag")?, tag.text("value")?.unwrap_or_default()));
    list.map(tag).collect()
}
