//! Writes XML as EC2 does: elements and text, without attributes except the namespace.

use std::time::SystemTime;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

/// Namespace of the supported API version.
pub(crate) const NAMESPACE: &str = "http://ec2.amazonaws.com/doc/2016-11-15/";

/// A writer of XML to memory. It cannot fail.
pub(crate) struct Xml {
    writer: Writer<Vec<u8>>,
}

impl Xml {
    fn event(&mut self, event: Event<'_>) {
        self.writer.write_event(event).expect("writing into memory cannot fail");
    }

    /// Writes an element around the output of `content`, which may be empty.
    pub(crate) fn element(&mut self, name: &str, content: impl FnOnce(&mut Self)) {
        self.event(Event::Start(BytesStart::new(name)));
        content(self);
        self.event(Event::End(BytesEnd::new(name)));
    }

    /// Writes an element with text. Characters that are invalid in XML 1.0 become U+FFFD.
    pub(crate) fn text(&mut self, name: &str, text: &str) {
        let clean: String = text.chars().map(|c| if allowed(c) { c } else { '\u{fffd}' }).collect();
        self.event(Event::Start(BytesStart::new(name)));
        self.event(Event::Text(BytesText::new(&clean)));
        self.event(Event::End(BytesEnd::new(name)));
    }

    pub(crate) fn value(&mut self, name: &str, value: impl ToString) {
        self.text(name, &value.to_string());
    }

    /// Writes an element, or nothing if the value is absent.
    pub(crate) fn maybe(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.value(name, value);
        }
    }

    pub(crate) fn time(&mut self, name: &str, time: SystemTime) {
        self.text(name, &timestamp(time));
    }

    pub(crate) fn maybe_time(&mut self, name: &str, time: Option<SystemTime>) {
        if let Some(time) = time {
            self.time(name, time);
        }
    }

    /// Writes a list: `name` contains one `item` for each element. Writes `name` even for an empty list.
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

/// Returns a time such as `2026-01-02T03:04:05.000Z`.
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

/// Returns a document without a namespace.
pub(crate) fn document(root: &str, content: impl FnOnce(&mut Xml)) -> String {
    write(BytesStart::new(root), content)
}

pub(crate) fn document_in(root: &str, namespace: &str, content: impl FnOnce(&mut Xml)) -> String {
    let mut root = BytesStart::new(root);
    root.push_attribute(("xmlns", namespace));
    write(root, content)
}

/// Returns the reply to an action: `<ActionResponse xmlns=…><requestId>…`.
pub(crate) fn response(action: &str, request_id: &str, content: impl FnOnce(&mut Xml)) -> String {
    document_in(&format!("{action}Response"), NAMESPACE, |w| {
        w.text("requestId", request_id);
        content(w);
    })
}
