//! Converts EC2's replies to types of the port. A missing required field is an error, never a default.

pub(crate) mod attachment;
pub(crate) mod instance;
pub(crate) mod snapshot;
pub(crate) mod volume;

use ebs_ec2::{IdError, Page, Tags};

use crate::reply::{Element, Incomplete, Read};

pub(crate) fn required<T>(value: Option<T>, what: &str) -> Read<T> {
    value.ok_or_else(|| Incomplete::lacks(what))
}

pub(crate) fn required_word(element: Element<'_>, name: &str, what: &str) -> Read<String> {
    required(element.word(name)?, what)
}

pub(crate) fn required_id<T>(
    element: Element<'_>,
    name: &str,
    what: &str,
    parse: fn(&str) -> Result<T, IdError>,
) -> Read<T> {
    required(optional_id(element, name, what, parse)?, what)
}

pub(crate) fn optional_id<T>(
    element: Element<'_>,
    name: &str,
    what: &str,
    parse: fn(&str) -> Result<T, IdError>,
) -> Read<Option<T>> {
    let text = element.word(name)?;
    text.map(|text| parse(&text).map_err(|e| Incomplete(format!("{what}: {e}")))).transpose()
}

/// Returns an optional count or size. EC2 uses signed 32-bit numbers, so larger and negative ones are invalid.
pub(crate) fn optional_number(element: Element<'_>, name: &str, what: &str) -> Read<Option<u32>> {
    let number = element.value::<i32>(name)?;
    number.map(|n| u32::try_from(n).map_err(|_| Incomplete(format!("{what} has the invalid value {n}")))).transpose()
}

/// Reads one page of a listing. The list element is required but may be empty.
pub(crate) fn page<T>(
    reply: Element<'_>,
    list: &str,
    what: &str,
    item: impl Fn(Element<'_>) -> Read<T>,
) -> Read<Page<T>> {
    let items = required(reply.list(list)?, what)?.map(item).collect::<Read<Vec<T>>>()?;
    Ok(Page { items, next: reply.word("nextToken")? })
}

pub(crate) fn about<T: PartialEq + std::fmt::Display>(answered: &T, asked: &T) -> Read<()> {
    if answered == asked { Ok(()) } else { Err(Incomplete(format!("it describes {answered}, not {asked}"))) }
}

pub(crate) fn among<T, I: PartialEq + std::fmt::Display>(items: &[T], id: impl Fn(&T) -> &I, asked: &[I]) -> Read<()> {
    match items.iter().map(id).find(|id| !asked.contains(id)) {
        None => Ok(()),
        Some(stranger) => Err(Incomplete(format!("it contains {stranger}, which was not requested"))),
    }
}

/// Returns the page if it contains only the requested objects.
pub(crate) fn only<T, I: PartialEq + std::fmt::Display>(
    page: Page<T>,
    id: impl Fn(&T) -> &I,
    asked: &[I],
) -> Read<Page<T>> {
    among(&page.items, id, asked).map(|()| page)
}

/// Reads a part of a reply. Its errors name the object that the part describes.
pub(crate) fn read_of<T>(id: &impl std::fmt::Display, read: impl FnOnce() -> Read<T>) -> Read<T> {
    read().map_err(|Incomplete(what)| Incomplete(format!("{what} ({id})")))
}

/// Returns the tags of a resource. A missing list means no tags.
pub(crate) fn tags(resource: Element<'_>) -> Read<Tags> {
    let Some(list) = resource.list("tagSet")? else { return Ok(Tags::new()) };
    let tag =
        |tag: Element<'_>| Ok((required(tag.text("key")?, "key of a tag")?, tag.text("value")?.unwrap_or_default()));
    list.map(tag).collect()
}
