//! Whether a reply is a whole answer of EC2.
//!
//! The SDK's decoder recovers silently from text that breaks off or is not well-formed: half a list would pass for
//! the whole, and a volume that is missing from it for one that is gone. It also never looks into replies of calls
//! that return nothing, so that any page of a proxy would pass for a deletion. So each reply is read once before.

use ebs_ec2::Action;
use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};

/// Elements inside each other; EC2's replies stay below a quarter of it.
const MAX_DEPTH: usize = 64;

/// Why a reply is no whole answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("it is not UTF-8")]
    Encoding(#[source] std::str::Utf8Error),
    #[error("it is not well-formed XML")]
    Syntax(#[source] quick_xml::Error),
    #[error("it is not XML: {0}")]
    Structure(&'static str),
    #[error("the element <{0}> is not closed")]
    Unclosed(String),
    #[error("it begins with <{found}> where <{wanted}> should stand")]
    Root { found: String, wanted: String },
    #[error("it says <return>{0}</return>")]
    Return(String),
}

/// Reads a reply to the action from its first to its last byte.
pub(crate) fn check(body: &[u8], action: Action) -> Result<(), Malformed> {
    let text = std::str::from_utf8(body).map_err(Malformed::Encoding)?;
    let mut reader = Reader::from_str(text);
    let mut document = Document { wanted: format!("{action}Response"), open: Vec::new(), ended: false, word: None };
    loop {
        match reader.read_event().map_err(Malformed::Syntax)? {
            Event::Start(start) => document.start(start.name().0)?,
            Event::Empty(start) => {
                document.start(start.name().0)?;
                document.end()?;
            }
            Event::End(_) => document.end()?,
            Event::Text(text) => document.text(&text)?,
            Event::CData(text) => document.text(&text)?,
            Event::GeneralRef(reference) => document.text(resolved(&reference)?)?,
            Event::DocType(_) => return Err(Malformed::Structure("it has a document type")),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::Eof => return document.finish(),
        }
    }
}

/// A reference stands for text; which text does not matter here.
fn resolved(reference: &BytesRef<'_>) -> Result<&'static str, Malformed> {
    let name: &str = reference;
    if matches!(name, "amp" | "lt" | "gt" | "quot" | "apos") {
        return Ok("?");
    }
    match reference.resolve_char_ref() {
        Ok(Some(_)) => Ok("?"),
        Ok(None) => Err(Malformed::Structure("it has an entity that nobody has declared")),
        Err(error) => Err(Malformed::Syntax(error)),
    }
}

/// What has been read so far.
struct Document {
    /// Name of the only element at the top.
    wanted: String,
    /// Elements that are open, outermost first.
    open: Vec<String>,
    /// The element at the top is closed.
    ended: bool,
    /// Text of `<return>` at the second level, while it is open.
    word: Option<String>,
}

impl Document {
    fn start(&mut self, name: &str) -> Result<(), Malformed> {
        if self.open.is_empty() && (self.ended || name != self.wanted) {
            return Err(Malformed::Root { found: name.to_owned(), wanted: self.wanted.clone() });
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(Malformed::Structure("it is nested too deeply"));
        }
        if self.open.len() == 1 && name == "return" {
            self.word = Some(String::new());
        }
        self.open.push(name.to_owned());
        Ok(())
    }

    fn end(&mut self) -> Result<(), Malformed> {
        if self.open.pop().is_none() {
            return Err(Malformed::Structure("an element is closed that was not open"));
        }
        self.ended = self.open.is_empty();
        match self.word.take_if(|_| self.open.len() == 1) {
            Some(word) if word.trim() != "true" => Err(Malformed::Return(word)),
            _ => Ok(()),
        }
    }

    fn text(&mut self, text: &str) -> Result<(), Malformed> {
        if let Some(word) = &mut self.word {
            word.push_str(text);
        }
        // A byte order mark may stand at the very front.
        if self.open.is_empty() && !text.trim_start_matches('\u{feff}').trim().is_empty() {
            return Err(Malformed::Structure("there is text outside of its elements"));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Malformed> {
        match self.open.pop() {
            Some(name) => Err(Malformed::Unclosed(name)),
            None if self.ended => Ok(()),
            None => Err(Malformed::Structure("it has no element")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<DeleteVolumeResponse xmlns=\"http://ec2/\">\n  \
        <requestId>a&amp;b&#65;</requestId><return>true</return></DeleteVolumeResponse>\n";

    fn word(body: &str) -> String {
        check(body.as_bytes(), Action::DeleteVolume).unwrap_err().to_string()
    }

    #[test]
    fn a_whole_reply_passes_with_or_without_a_word_on_success() {
        check(WHOLE.as_bytes(), Action::DeleteVolume).unwrap();
        check(b"<DeleteVolumeResponse/>", Action::DeleteVolume).unwrap();
        check(WHOLE.replace("<return>true</return>", "").as_bytes(), Action::DeleteVolume).unwrap();
    }

    #[test]
    fn a_reply_that_breaks_off_anywhere_does_not_pass() {
        let last = WHOLE.trim_end().len();
        for end in 0..last {
            assert!(check(&WHOLE.as_bytes()[..end], Action::DeleteVolume).is_err(), "{:?}", &WHOLE[..end]);
        }
    }

    #[test]
    fn what_is_no_answer_to_this_call_does_not_pass() {
        assert!(word("").contains("no element"));
        assert!(word("{\"a\":1}").contains("outside"));
        assert!(word("<html><DeleteVolumeResponse/></html>").contains("<html>"));
        assert!(word("<DeleteSnapshotResponse/>").contains("<DeleteVolumeResponse> should stand"));
        assert!(word("<DeleteVolumeResponse/><DeleteVolumeResponse/>").contains("begins with"));
        assert!(word("<DeleteVolumeResponse/>tail").contains("outside"));
        assert!(word("<DeleteVolumeResponse><return>false</return></DeleteVolumeResponse>").contains("false"));
        assert!(word("<DeleteVolumeResponse><return/></DeleteVolumeResponse>").contains("<return></return>"));
        assert!(word("<DeleteVolumeResponse><a></b></DeleteVolumeResponse>").contains("well-formed"));
        assert!(word("<DeleteVolumeResponse>&nbsp;</DeleteVolumeResponse>").contains("entity"));
        assert!(word("<!DOCTYPE x [<!ENTITY a \"b\">]><DeleteVolumeResponse/>").contains("document type"));
        let deep = format!("<DeleteVolumeResponse>{}", "<a>".repeat(100_000));
        assert!(word(&deep).contains("too deeply"));
        assert!(check(b"<DeleteVolumeResponse>\xff</DeleteVolumeResponse>", Action::DeleteVolume).is_err());
    }
}
