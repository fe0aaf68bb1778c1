//! Writing XML the way EC2 does: elements and text, no attributes but the name space.

use std::time::SystemTime;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

/// Name space of the API version that is spoken.
pub(crate) const NAMESPACE: &str = "http://ec2.amazonaws.com/doc/2016-11-15/";

/// Writes into memory, which cannot fail.
pub(crate) struct Xml {
    writer: Writer<Vec<u8>>,
}

impl Xml {
    fn event(&mut self, event: Event<'_>) {
        self.writer.write_event(event).expect("writing into memory cannot fail");
    }

    /// An element and what `content` writes into it; empty when it writes nothing.
    pub(crate) fn element(&mut self, name: &str, content: impl FnOnce(&mut Self)) {
        self.event(Event::Start(BytesStart::new(name)));
        content(self);
        self.event(Event::End(BytesEnd::new(name)));
    }

    /// An element with text. Characters that XML 1.0 cannot carry become U+FFFD.
    pub(crate) fn text(&mut self, name: &str, text: &str) {
        let clean: String = text.chars().map(|c| if allowed(c) { c } else { '\u{fffd}' }).collect();
        self.event(Event::Start(BytesStart::new(name)));
        self.event(Event::Text(BytesText::new(&clean)));
        self.event(Event::End(BytesEnd::new(name)));
    }

    /// An element with a value that has a textual form.
    pub(crate) fn value(&mut self, name: &str, value: impl ToString) {
        self.text(name, &value.to_string());
    }

    /// An element that is left out when there is nothing to say.
    pub(crate) fn maybe(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.value(name, value);
        }
    }

    /// A time in UTC, to the millisecond.
    pub(crate) fn time(&mut self, name: &str, time: SystemTime) {
        self.text(name, &timestamp(time));
    }

    /// A time that is left out when there is none.
    pub(crate) fn maybe_time(&mut self, name: &str, time: Option<SystemTime>) {
        if let Some(time) = time {
            self.time(name, time);
        }
    }

    /// A list: `name` holds one `item` for each thing; always written, so that an empty list is an empty list.
    pub(crate) fn list<T>(
        &mut self,
        name: &str,
        things: impl IntoIterator<Item = T>,
        mut item: impl FnMut(&mut Self, T),
    ) {
        self.element(name, |w| {
            for thing in things {
                w.element("item", |w| item(w, thing));
            }
        });
    }
}

/// `2026-01-02T03:04:05.000Z`.
pub(crate) fn timestamp(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

fn allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r') || (c >= ' ' && c != '\u{fffe}' && c != '\u{ffff}')
}

fn write(root: BytesStart<'_>, content: impl FnOnce(&mut Xml)) -> String {
    let mut xml = Xml { writer: Writer::new(Vec::new()) };
    xml.event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)));
    xml.writer.get_mut().push(b'\n');
    let end = root.to_end().into_owned();
    xml.event(Event::Start(root));
    content(&mut xml);
    xml.event(Event::End(end));
    String::from_utf8(xml.writer.into_inner()).expect("only text was written")
}

/// A document without name space.
pub(crate) fn document(root: &str, content: impl FnOnce(&mut Xml)) -> String {
    write(BytesStart::new(root), content)
}

/// A document in a name space.
pub(crate) fn document_in(root: &str, namespace: &str, content: impl FnOnce(&mut Xml)) -> String {
    let mut root = BytesStart::new(root);
    root.push_attribute(("xmlns", namespace));
    write(root, content)
}

/// The answer to an action: `<ActionResponse xmlns=…><requestId>…`.
pub(crate) fn response(action: &str, request_id: &str, content: impl FnOnce(&mut Xml)) -> String {
    document_in(&format!("{action}Response"), NAMESPACE, |w| {
        w.text("requestId", request_id);
        content(w);
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_utc_with_milliseconds() {
        assert_eq!(
            timestamp(SystemTime::UNIX_EPOCH + Duration::from_millis(1_767_323_045_007)),
            "2026-01-02T03:04:05.007Z"
        );
    }

    #[test]
    fn an_empty_list_is_an_empty_element() {
        let body = response("DescribeVolumes", "r", |w| w.list("volumeSet", Vec::<u32>::new(), |_, _| ()));
        assert!(body.ends_with(
            "<DescribeVolumesResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">\
             <requestId>r</requestId><volumeSet></volumeSet></DescribeVolumesResponse>"
        ));
    }

    #[test]
    fn text_that_xml_cannot_carry_is_replaced_and_markup_is_escaped() {
        let body = document("a", |w| w.text("b", "x\u{0}<&>\u{1f}"));
        assert!(body.ends_with("<a><b>x\u{fffd}&lt;&amp;&gt;\u{fffd}</b></a>"), "{body}");
    }
}
