//! Whether a reply is a whole answer of EC2.
//!
//! The SDK's decoder ends silently where text breaks off or is not well-formed: half a list would pass for the
//! whole, and a volume that is missing from it for one that is gone. It also never looks into replies of calls that
//! return nothing, so that any page of a proxy would pass for a deletion. So each reply is read once before, with
//! the tokenizer that the SDK itself reads with: what passes here leaves it nothing to recover from.

use ebs_ec2::Action;
use xmlparser::{ElementEnd, Token, Tokenizer};

/// Elements inside each other; EC2's replies stay below a quarter of it.
const MAX_DEPTH: usize = 64;

/// Why a reply is no whole answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("it is not UTF-8")]
    Encoding(#[source] std::str::Utf8Error),
    #[error("it is not well-formed XML")]
    Syntax(#[source] xmlparser::Error),
    #[error("it is no answer: {0}")]
    Structure(&'static str),
    #[error("<{open}> is closed by </{close}>")]
    Mismatch { open: String, close: String },
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
    let mut document = Document { wanted: format!("{action}Response"), open: Vec::new(), ended: false, word: None };
    for token in Tokenizer::from(text) {
        match token.map_err(Malformed::Syntax)? {
            Token::ElementStart { prefix, local, .. } => document.start(prefix.as_str(), local.as_str())?,
            Token::ElementEnd { end: ElementEnd::Open, .. } => {}
            Token::ElementEnd { end: ElementEnd::Empty, .. } => document.end()?,
            Token::ElementEnd { end: ElementEnd::Close(prefix, local), .. } => {
                document.close(prefix.as_str(), local.as_str())?;
            }
            Token::Text { text } | Token::Cdata { text, .. } => document.text(text.as_str())?,
            Token::DtdStart { .. }
            | Token::EmptyDtd { .. }
            | Token::EntityDeclaration { .. }
            | Token::DtdEnd { .. } => {
                return Err(Malformed::Structure("it has a document type"));
            }
            Token::Attribute { .. }
            | Token::Comment { .. }
            | Token::Declaration { .. }
            | Token::ProcessingInstruction { .. } => {}
        }
    }
    document.finish()
}

/// What has been read so far.
struct Document<'a> {
    /// Name of the only element at the top.
    wanted: String,
    /// Prefixes and names of the elements that are open, outermost first.
    open: Vec<(&'a str, &'a str)>,
    /// The element at the top is closed.
    ended: bool,
    /// Text of `<return>` at the second level, while it is open.
    word: Option<String>,
}

impl<'a> Document<'a> {
    fn start(&mut self, prefix: &'a str, name: &'a str) -> Result<(), Malformed> {
        if self.open.is_empty() && (self.ended || !prefix.is_empty() || name != self.wanted) {
            return Err(Malformed::Root { found: full(prefix, name), wanted: self.wanted.clone() });
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(Malformed::Structure("it is nested too deeply"));
        }
        if self.open.len() == 1 && name == "return" {
            self.word = Some(String::new());
        }
        self.open.push((prefix, name));
        Ok(())
    }

    fn close(&mut self, prefix: &str, name: &str) -> Result<(), Malformed> {
        match self.open.last() {
            Some(open) if *open == (prefix, name) => self.end(),
            Some((p, n)) => Err(Malformed::Mismatch { open: full(p, n), close: full(prefix, name) }),
            None => Err(Malformed::Structure("an element is closed that was not open")),
        }
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
        if self.open.is_empty() && !text.trim().is_empty() {
            return Err(Malformed::Structure("there is text outside of its elements"));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Malformed> {
        match self.open.pop() {
            Some((prefix, name)) => Err(Malformed::Unclosed(full(prefix, name))),
            None if self.ended => Ok(()),
            None => Err(Malformed::Structure("it has no element")),
        }
    }
}

fn full(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}:{name}") }
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

    /// A reply that is not whole, well-formed and of the right kind is no answer, though the SDK's decoder would take
    /// it.
    ///
    /// Rule: D-5; own rule (bad input)
    #[test]
    fn a_reply_that_breaks_off_anywhere_does_not_pass() {
        let last = WHOLE.trim_end().len();
        for end in 0..last {
            assert!(check(&WHOLE.as_bytes()[..end], Action::DeleteVolume).is_err(), "{:?}", &WHOLE[..end]);
        }
    }

    /// Rule: see `a_reply_that_breaks_off_anywhere_does_not_pass`
    #[test]
    fn what_is_no_answer_to_this_call_does_not_pass() {
        assert!(word("").contains("no element"));
        assert!(word("{\"a\":1}").contains("well-formed"));
        assert!(word("<html><DeleteVolumeResponse/></html>").contains("<html>"));
        assert!(word("<x:DeleteVolumeResponse/>").contains("<x:DeleteVolumeResponse>"));
        assert!(word("<DeleteSnapshotResponse/>").contains("<DeleteVolumeResponse> should stand"));
        word("<DeleteVolumeResponse/><DeleteVolumeResponse/>");
        word("<DeleteVolumeResponse/>tail");
        assert!(word("<DeleteVolumeResponse><return>false</return></DeleteVolumeResponse>").contains("false"));
        assert!(word("<DeleteVolumeResponse><return/></DeleteVolumeResponse>").contains("<return></return>"));
        assert!(word("<DeleteVolumeResponse><a></b></DeleteVolumeResponse>").contains("<a> is closed by </b>"));
        assert!(word("<DeleteVolumeResponse><a>\u{0}</a></DeleteVolumeResponse>").contains("well-formed"));
        assert!(word("<!DOCTYPE x [<!ENTITY a \"b\">]><DeleteVolumeResponse/>").contains("document type"));
        let deep = format!("<DeleteVolumeResponse>{}", "<a>".repeat(100_000));
        assert!(word(&deep).contains("too deeply"));
        assert!(check(b"<DeleteVolumeResponse>\xff</DeleteVolumeResponse>", Action::DeleteVolume).is_err());
    }
}
