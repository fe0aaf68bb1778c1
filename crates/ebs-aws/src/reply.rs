//! Replies of EC2, read as a whole or not at all.
//!
//! A decoder that takes what it finds would take half a list for the whole, and a volume that is missing from it for one that is
//! gone; one that never looks into the reply of a deletion would take any page of a proxy for it. So a reply is one
//! well-formed document of the right name, and each field of it is there once, and can be what it should be, or is an error.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::SystemTime;

use aws_smithy_types::date_time::{DateTime, Format};
use ebs_ec2::Action;
use roxmltree::{Document, Node, ParsingOptions};

/// Most elements and texts of a reply. The largest page of EC2 (1,000 volumes with 50 tags each) has a third of it.
const MAX_NODES: u32 = 1_000_000;

/// Why a reply is no whole answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("it is not UTF-8")]
    Encoding(#[source] std::str::Utf8Error),
    #[error("it is not well-formed XML")]
    Syntax(#[source] roxmltree::Error),
    #[error("it begins with <{found}> where <{wanted}> should stand")]
    Root { found: String, wanted: String },
    /// A call whose reply has nothing else says in `<return>` how it went.
    #[error("it says <return>{0}</return>")]
    Return(String),
}

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

fn text(body: &[u8]) -> Result<Cow<'_, str>, Malformed> {
    std::str::from_utf8(body).map(without_forbidden_references).map_err(Malformed::Encoding)
}

/// Reads a document from its first to its last byte. One with a document type is none: EC2 never sends it.
fn document(text: &str) -> Result<Document<'_>, Malformed> {
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).map_err(Malformed::Syntax)
}

/// The text with U+FFFD for each reference to a character that XML 1.0 does not have. EC2 has no other way to write such a character,
/// which a tag may hold, and no parser takes it: one tag would spoil the whole page.
fn without_forbidden_references(text: &str) -> Cow<'_, str> {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, reference)) = rest.split_once("&#") {
        let end = reference.find(';').filter(|end| forbidden(&reference[..*end]));
        kept.push_str(before);
        match end {
            Some(end) => {
                kept.push(char::REPLACEMENT_CHARACTER);
                rest = &reference[end + 1..];
            }
            None => {
                kept.push_str("&#");
                rest = reference;
            }
        }
    }
    if kept.is_empty() {
        return Cow::Borrowed(text);
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// The digits of a reference are the number of a character that XML 1.0 does not have.
fn forbidden(digits: &str) -> bool {
    let number = match digits.strip_prefix('x') {
        Some(hex) if hex.bytes().all(|byte| byte.is_ascii_hexdigit()) => u32::from_str_radix(hex, 16),
        None if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse(),
        _ => return false,
    };
    let allowed = |number| matches!(number, 0x9 | 0xA | 0xD | 0x20..=0xD7FF | 0xE000..=0xFFFD | 0x1_0000..=0x10_FFFF);
    number.is_ok_and(|number| !allowed(number))
}

/// The reply to an action, for `read`.
///
/// # Errors
/// [`Malformed`]: this is no whole reply to that action.
pub(crate) fn read<T>(body: &[u8], action: Action, read: impl FnOnce(Element<'_>) -> T) -> Result<T, Malformed> {
    let text = text(body)?;
    let document = document(&text)?;
    let root = document.root_element();
    let wanted = format!("{action}Response");
    // The root's name space is the default one: a prefix makes it an element of somebody else.
    if root.tag_name().name() != wanted || root.tag_name().namespace() != root.default_namespace() {
        return Err(Malformed::Root { found: full_name(root), wanted });
    }
    let root = Element(root);
    if let Some(word) = root.0.children().find(|child| root.has_named(*child, "return")) {
        let word: String =
            word.descendants().filter_map(|node| node.is_text().then(|| node.text()).flatten()).collect();
        if word.trim() != "true" {
            return Err(Malformed::Return(word));
        }
    }
    Ok(read(root))
}

/// Code and message of an error answer of EC2 or STS, of the first error in it.
///
/// # Errors
/// [`Malformed`]: this is no document.
pub(crate) fn code_and_message(body: &[u8]) -> Result<(Option<String>, Option<String>), Malformed> {
    let text = text(body)?;
    let document = document(&text)?;
    let error = document.root_element().descendants().find(|node| node.has_tag_name_of("Error"));
    let field = |name: &str| {
        let field = error?.children().find(|node| node.has_tag_name_of(name))?;
        field.text().map(str::to_owned).filter(|text| !text.is_empty())
    };
    Ok((field("Code"), field("Message")))
}

/// Names without their name space: each of AWS's services has one of its own around its errors.
trait LocalName {
    fn has_tag_name_of(&self, name: &str) -> bool;
}

impl LocalName for Node<'_, '_> {
    fn has_tag_name_of(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }
}

fn full_name(node: Node<'_, '_>) -> String {
    let name = node.tag_name();
    match name.namespace().and_then(|space| node.lookup_prefix(space)) {
        Some(prefix) if !prefix.is_empty() => format!("{prefix}:{}", name.name()),
        _ => name.name().to_owned(),
    }
}

/// An element of a reply. Its fields are the elements in it, known by name; what nobody asks for is passed over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Element<'a>(Node<'a, 'a>);

impl<'a> Element<'a> {
    /// `child` is an element of this name, in the name space of this element.
    fn has_named(self, child: Node<'_, '_>, name: &str) -> bool {
        let tag = child.tag_name();
        child.is_element() && tag.name() == name && tag.namespace() == self.0.tag_name().namespace()
    }

    fn children(self, name: &str) -> impl Iterator<Item = Self> {
        self.0.children().filter(move |child| self.has_named(*child, name)).map(Self)
    }

    /// The field of this name, where there is one.
    pub(crate) fn field(self, name: &str) -> Read<Option<Self>> {
        let mut found = self.children(name);
        match (found.next(), found.next()) {
            (field, None) => Ok(field),
            (_, Some(_)) => Err(Incomplete(format!("<{name}> stands in it twice"))),
        }
    }

    /// The items of a list, where there is one.
    pub(crate) fn list(self, name: &str) -> Read<Option<impl Iterator<Item = Self>>> {
        Ok(self.field(name)?.map(|list| list.children("item")))
    }

    /// The text of a field as it is, where there is such a field.
    pub(crate) fn text(self, name: &str) -> Read<Option<String>> {
        let Some(field) = self.field(name)? else { return Ok(None) };
        if field.0.children().any(|node| node.is_element()) {
            return Err(Incomplete(format!("elements in <{name}>, where text should stand")));
        }
        Ok(Some(field.0.children().filter(Node::is_text).filter_map(|node| node.text()).collect()))
    }

    /// The text of a field that is not empty: EC2 writes an empty element for what is not set.
    pub(crate) fn word(self, name: &str) -> Read<Option<String>> {
        Ok(self.text(name)?.filter(|text| !text.is_empty()))
    }

    /// A number or truth value.
    pub(crate) fn value<T: FromStr>(self, name: &str) -> Read<Option<T>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Incomplete(format!("<{name}> is {text:?}")))
    }

    /// A time of day; none where it is beyond what this machine can tell.
    pub(crate) fn time(self, name: &str) -> Read<Option<SystemTime>> {
        let Some(text) = self.word(name)? else { return Ok(None) };
        let time = DateTime::from_str(&text, Format::DateTimeWithOffset);
        let time = time.map_err(|_| Incomplete(format!("<{name}> is {text:?}, which is no time")))?;
        Ok(SystemTime::try_from(time).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<DeleteVolumeResponse xmlns=\"http://ec2/\">\n  \
        <requestId>a&amp;b&#65;</requestId><return>true</return></DeleteVolumeResponse>\n";

    fn check(body: &[u8]) -> Result<(), Malformed> {
        read(body, Action::DeleteVolume, |_| ())
    }

    fn word(body: &str) -> String {
        check(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_whole_reply_passes_with_or_without_a_word_on_success() {
        check(WHOLE.as_bytes()).unwrap();
        check(b"<DeleteVolumeResponse/>").unwrap();
        check(WHOLE.replace("<return>true</return>", "").as_bytes()).unwrap();
    }

    /// A reply that is not whole, well-formed and of the right kind is no answer, whatever part of it could be read.
    #[test]
    fn a_reply_that_breaks_off_anywhere_does_not_pass() {
        let last = WHOLE.trim_end().len();
        for end in 0..last {
            assert!(check(&WHOLE.as_bytes()[..end]).is_err(), "{:?}", &WHOLE[..end]);
        }
    }

    #[test]
    fn what_is_no_answer_to_this_call_does_not_pass() {
        for not_xml in [
            "",
            "{\"a\":1}",
            "<x:DeleteVolumeResponse/>",
            "<DeleteVolumeResponse/><DeleteVolumeResponse/>",
            "<DeleteVolumeResponse/>tail",
            "<DeleteVolumeResponse><a></b></DeleteVolumeResponse>",
            "<DeleteVolumeResponse><a>\u{0}</a></DeleteVolumeResponse>",
            "<DeleteVolumeResponse><a>&b;</a></DeleteVolumeResponse>",
            "<!DOCTYPE x [<!ENTITY a \"b\">]><DeleteVolumeResponse/>",
        ] {
            assert!(word(not_xml).contains("well-formed"), "{not_xml}");
        }
        assert!(word("<html><DeleteVolumeResponse/></html>").contains("<html>"));
        assert!(word("<x:DeleteVolumeResponse xmlns:x=\"y\"/>").contains("<x:DeleteVolumeResponse>"));
        assert!(word("<DeleteSnapshotResponse/>").contains("<DeleteVolumeResponse> should stand"));
        assert!(word("<DeleteVolumeResponse><return>false</return></DeleteVolumeResponse>").contains("false"));
        assert!(word("<DeleteVolumeResponse><return/></DeleteVolumeResponse>").contains("<return></return>"));
        word(&format!("<DeleteVolumeResponse>{}", "<a>".repeat(100_000)));
        word(&format!("<DeleteVolumeResponse>{}</DeleteVolumeResponse>", "<a/>".repeat(1_000_001)));
        assert!(check(b"<DeleteVolumeResponse>\xff</DeleteVolumeResponse>").is_err());
    }

    /// A field stands once in a reply, and is what it should be, or the reply is refused.
    #[test]
    fn a_field_is_there_once_and_can_be_read_or_is_an_error() {
        let body = "<DeleteVolumeResponse xmlns=\"e\" xmlns:o=\"other\"><a>x<!-- - -->&lt;<![CDATA[<y>]]></a><b/><n>7</n><o:n>8</o:n>\
            <t>2026-01-02T03:04:05.5+00:00</t><l><item><n>1</n></item><other/><item/></l><twice/><twice/></DeleteVolumeResponse>";
        read(body.as_bytes(), Action::DeleteVolume, |root| {
            assert_eq!(root.text("a"), Ok(Some("x<<y>".to_owned())));
            assert_eq!((root.text("b"), root.word("b")), (Ok(Some(String::new())), Ok(None)));
            assert_eq!((root.text("none"), root.value::<u32>("none")), (Ok(None), Ok(None)));
            assert_eq!(root.value::<u32>("n"), Ok(Some(7)), "what stands in another name space is another field");
            assert_eq!(root.value::<u8>("a"), Err(Incomplete("<a> is \"x<<y>\"".into())));
            assert_eq!(root.value::<bool>("b"), Err(Incomplete("<b> is \"\"".into())));
            assert!(root.time("t").unwrap().is_some());
            root.time("a").unwrap_err();
            let items: Vec<_> = root.list("l").unwrap().unwrap().map(|item| item.value::<u32>("n")).collect();
            assert_eq!(items, [Ok(Some(1)), Ok(None)]);
            assert!(root.list("none").unwrap().is_none());
            assert!(root.text("twice").unwrap_err().to_string().contains("twice"));
            assert!(root.text("l").unwrap_err().to_string().contains("elements in <l>"));
        })
        .unwrap();
    }

    #[test]
    fn an_error_answer_has_the_code_and_message_of_its_first_error() {
        let of = |body: &str| code_and_message(body.as_bytes());
        let wanted = || (Some("A.B".to_owned()), Some("m & n".to_owned()));
        let error = "<Error><Code>A.B</Code><Message>m &amp; n</Message></Error>";
        assert_eq!(of(&format!("<Response><Errors>{error}<Error/></Errors></Response>")).unwrap(), wanted());
        assert_eq!(of(&format!("<ErrorResponse xmlns=\"sts\">{error}</ErrorResponse>")).unwrap(), wanted());
        assert_eq!(of("<Response><Errors><Error><Code/></Error></Errors></Response>").unwrap(), (None, None));
        assert_eq!(of("<html/>").unwrap(), (None, None));
        of("<Response><Errors><Error><Code>A</Code></Error>").unwrap_err();
    }
}
