//! Reads each EC2 reply completely, or rejects it.
//!
//! A lenient parser would accept half a list as complete, and a volume that it misses would count as gone. A parser
//! that ignores the reply of a deletion would accept any page from a proxy. So a reply must be one well-formed document
//! with the right name, and each field must be unique and valid.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::SystemTime;

use aws_smithy_types::date_time::{DateTime, Format};
use ebs_ec2::Action;
use roxmltree::{Document, Node, ParsingOptions};

/// The most elements and texts in a reply. EC2's largest page (1,000 volumes with 50 tags each) has a third as many.
const MAX_NODES: u32 = 1_000_000;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("it is not UTF-8")]
    Encoding(#[source] std::str::Utf8Error),
    #[error("it is not well-formed XML")]
    Syntax(#[source] roxmltree::Error),
    #[error("it begins with <{found}>, not <{wanted}>")]
    Root { found: String, wanted: String },
    /// The value of `<return>`, in which a reply without other content reports success, is not `true`.
    #[error("it contains <return>{0}</return>")]
    Return(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Incomplete(pub(crate) String);

impl Incomplete {
    pub(crate) fn lacks(what: &str) -> Self {
        Self(format!("{what} is missing"))
    }
}

pub(crate) type Read<T> = Result<T, Incomplete>;

fn text(body: &[u8]) -> Result<Cow<'_, str>, Malformed> {
    std::str::from_utf8(body).map(without_forbidden_references).map_err(Malformed::Encoding)
}

/// Parses a complete document. Rejects a document type definition, which EC2 never sends.
fn document(text: &str) -> Result<Document<'_>, Malformed> {
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).map_err(Malformed::Syntax)
}

/// Replaces each reference to a character that XML 1.0 excludes with U+FFFD. EC2 writes such a character in a tag as a
/// reference, and parsers reject it, so one tag would make the whole page unreadable.
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

/// Returns true if the reference's digits are the number of a character that XML 1.0 excludes.
fn forbidden(digits: &str) -> bool {
    let number = match digits.strip_prefix('x') {
        Some(hex) if hex.bytes().all(|byte| byte.is_ascii_hexdigit()) => u32::from_str_radix(hex, 16),
        None if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse(),
        _ => return false,
    };
    let allowed = |number| matches!(number, 0x9 | 0xA | 0xD | 0x20..=0xD7FF | 0xE000..=0xFFFD | 0x1_0000..=0x10_FFFF);
    number.is_ok_and(|number| !allowed(number))
}

pub(crate) fn read<T>(body: &[u8], action: Action, read: impl FnOnce(Element<'_>) -> T) -> Result<T, Malformed> {
    let text = text(body)?;
    let document = document(&text)?;
    let root = document.root_element();
    let wanted = format!("{action}Response");
    // The root must be in the default namespace. An element with a prefix belongs to another namespace.
    if root.tag_name().name() != wanted || root.tag_name().namespace() != root.default_namespace() {
        return Err(Malformed::Root { found: full_name(root), wanted });
    }
    let root = Element(root);
    if let Some(word) = root.0.children().find(|child| root.has_named(*child, "return")) {
        let word: String = word.descendants().filter(Node::is_text).filter_map(|node| node.text()).collect();
        if word.trim() != "true" {
            return Err(Malformed::Return(word));
        }
    }
    Ok(read(root))
}

/// Returns the code and message of the first error in an error answer of EC2 or STS.
pub(crate) fn code_and_message(body: &[u8]) -> Result<(Option<String>, Option<String>), Malformed> {
    let text = text(body)?;
    let document = document(&text)?;
    let error = document.root_element().descendants().find(|node| is_named(node, "Error"));
    let field = |name: &str| {
        let field = error?.children().find(|node| is_named(node, name))?;
        field.text().map(str::to_owned).filter(|text| !text.is_empty())
    };
    Ok((field("Code"), field("Message")))
}

/// Compares names without their namespaces, because each AWS service uses its own namespace for errors.
fn is_named(node: &Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.tag_name().name() == name
}

fn full_name(node: Node<'_, '_>) -> String {
    let name = node.tag_name();
    match name.namespace().and_then(|space| node.lookup_prefix(space)) {
        Some(prefix) if !prefix.is_empty() => format!("{prefix}:{}", name.name()),
        _ => name.name().to_owned(),
    }
}

/// An element of a reply. Its fields are its child elements, by name. Unknown fields are ignored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Element<'a>(Node<'a, 'a>);

impl<'a> Element<'a> {
    fn has_named(self, child: Node<'_, '_>, name: &str) -> bool {
        let tag = child.tag_name();
        child.is_element() && tag.name() == name && tag.namespace() == self.0.tag_name().namespace()
    }

    fn children(self, name: &str) -> impl Iterator<Item = Self> {
        self.0.children().filter(move |child| self.has_named(*child, name)).map(Self)
    }

    pub(crate) fn field(self, name: &str) -> Read<Option<Self>> {
        let mut found = self.children(name);
        match (found.next(), found.next()) {
            (field, None) => Ok(field),
            (_, Some(_)) => Err(Incomplete(format!("it contains <{name}> twice"))),
        }
    }

    pub(crate) fn list(self, name: &str) -> Read<Option<impl Iterator<Item = Self>>> {
        Ok(self.field(name)?.map(|list| list.children("item")))
    }

    /// Returns a field's text unchanged, if the field exists.
    pub(crate) fn text(self, name: &str) -> Read<Option<String>> {
        let Some(field) = self.field(name)? else { return Ok(None) };
        if field.0.children().any(|node| node.is_element()) {
            return Err(Incomplete(format!("<{name}> contains elements instead of text")));
        }
        Ok(Some(field.0.children().filter(Node::is_text).filter_map(|node| node.text()).collect()))
    }

    /// Returns a field's text unless it is empty, because EC2 writes an empty element for an unset value.
    pub(crate) fn word(self, name: &str) -> Read<Option<String>> {
        Ok(self.text(name)?.filter(|text| !text.is_empty()))
    }

    pub(crate) fn value<T: FromStr>(self, name: &str) -> Read<Option<T>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Incomplete(format!("<{name}> has the invalid value {text:?}")))
    }

    /// Returns a field's date and time, or `None` if this machine cannot represent it.
    pub(crate) fn time(self, name: &str) -> Read<Option<SystemTime>> {
        let Some(text) = self.word(name)? else { return Ok(None) };
        let time = DateTime::from_str(&text, Format::DateTimeWithOffset);
        let time = time.map_err(|_| Incomplete(format!("<{name}> has the invalid time {text:?}")))?;
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
    fn complete_reply_is_accepted_with_or_without_return_element() {
        check(WHOLE.as_bytes()).unwrap();
        check(b"<DeleteVolumeResponse/>").unwrap();
        check(WHOLE.replace("<return>true</return>", "").as_bytes()).unwrap();
    }

    #[test]
    fn truncated_reply_is_rejected_at_every_length() {
        let last = WHOLE.trim_end().len();
        for end in 0..last {
            assert!(check(&WHOLE.as_bytes()[..end]).is_err(), "{:?}", &WHOLE[..end]);
        }
    }

    #[test]
    fn non_ec2_reply_is_rejected() {
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
        assert!(word("<DeleteSnapshotResponse/>").contains("not <DeleteVolumeResponse>"));
        assert!(word("<DeleteVolumeResponse><return>false</return></DeleteVolumeResponse>").contains("false"));
        assert!(word("<DeleteVolumeResponse><return/></DeleteVolumeResponse>").contains("<return></return>"));
        word(&format!("<DeleteVolumeResponse>{}", "<a>".repeat(100_000)));
        word(&format!("<DeleteVolumeResponse>{}</DeleteVolumeResponse>", "<a/>".repeat(1_000_001)));
        assert!(check(b"<DeleteVolumeResponse>\xff</DeleteVolumeResponse>").is_err());
    }

    #[test]
    fn duplicate_or_invalid_field_is_an_error() {
        let body = "<DeleteVolumeResponse xmlns=\"e\" xmlns:o=\"other\"><a>x<!-- - -->&lt;<![CDATA[<y>]]></a><b/><n>7</n><o:n>8</o:n>\
            <t>2026-01-02T03:04:05.5+00:00</t><l><item><n>1</n></item><other/><item/></l><twice/><twice/></DeleteVolumeResponse>";
        read(body.as_bytes(), Action::DeleteVolume, |root| {
            assert_eq!(root.text("a"), Ok(Some("x<<y>".to_owned())));
            assert_eq!((root.text("b"), root.word("b")), (Ok(Some(String::new())), Ok(None)));
            assert_eq!((root.text("none"), root.value::<u32>("none")), (Ok(None), Ok(None)));
            assert_eq!(root.value::<u32>("n"), Ok(Some(7)), "what stands in another name space is another field");
            assert_eq!(root.value::<u8>("a"), Err(Incomplete("<a> has the invalid value \"x<<y>\"".into())));
            assert_eq!(root.value::<bool>("b"), Err(Incomplete("<b> has the invalid value \"\"".into())));
            assert!(root.time("t").unwrap().is_some());
            root.time("a").unwrap_err();
            let items: Vec<_> = root.list("l").unwrap().unwrap().map(|item| item.value::<u32>("n")).collect();
            assert_eq!(items, [Ok(Some(1)), Ok(None)]);
            assert!(root.list("none").unwrap().is_none());
            assert!(root.text("twice").unwrap_err().to_string().contains("twice"));
            assert!(root.text("l").unwrap_err().to_string().contains("<l> contains elements"));
        })
        .unwrap();
    }

    #[test]
    fn code_and_message_are_read_from_the_first_error() {
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
