//! A client that can use every feature of HTTP/2 and HPACK.

use std::collections::VecDeque;

use crate::huffman;

/// A name and a value.
pub(crate) type Field = (String, String);

/// How a client encodes the fields of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Style {
    pub(crate) coded: bool,
    /// Whether fields are added to the dynamic table and later referenced there.
    pub(crate) indexed: bool,
    /// Whether names are written out, even if the static table has them.
    pub(crate) names_written: bool,
    /// Whether fields that are not added to the table are marked as "never indexed".
    pub(crate) never: bool,
    /// The size to which the dynamic table is resized first, if any.
    pub(crate) table: Option<usize>,
}

/// How a header block is split into frames.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frames {
    pub(crate) padding: Option<u8>,
    pub(crate) priority: bool,
    /// The lengths of all fragments but the last, which has the rest of the block.
    pub(crate) fragments: Vec<usize>,
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const TABLE: usize = 4096;

/// The entries of the static table that requests use.
const STATIC: [(usize, &str, &str); 6] = [
    (1, ":authority", ""),
    (3, ":method", "POST"),
    (4, ":path", "/"),
    (6, ":scheme", "http"),
    (31, "content-type", ""),
    (58, "user-agent", ""),
];

pub(crate) struct Client {
    pub(crate) bytes: Vec<u8>,
    table: VecDeque<Field>,
    size: usize,
    next_stream: u32,
}

impl Client {
    /// Creates a client that has sent its preface and its settings.
    pub(crate) fn new() -> Self {
        let mut client = Self { bytes: PREFACE.to_vec(), table: VecDeque::new(), size: TABLE, next_stream: 1 };
        client.frame(4, 0, 0, &[]);
        client
    }

    pub(crate) fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        self.bytes.extend([length[1], length[2], length[3], kind, flags]);
        self.bytes.extend(stream.to_be_bytes());
        self.bytes.extend(payload);
    }

    /// Sends a request without a body. Returns the number of its stream.
    pub(crate) fn request(&mut self, fields: &[Field], style: &Style, frames: &Frames) -> u32 {
        let block = self.block(fields, style);
        self.headers(&block, true, frames)
    }

    /// Sends a request with a body. Returns the number of its stream.
    pub(crate) fn request_with_body(&mut self, fields: &[Field], style: &Style, body: &[u8]) -> u32 {
        let block = self.block(fields, style);
        let stream = self.headers(&block, false, &Frames::default());
        self.frame(0, 1, stream, body);
        stream
    }

    /// Sends a header block as given. Returns the number of its stream.
    pub(crate) fn headers(&mut self, block: &[u8], is_end: bool, frames: &Frames) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        let mut fragments = Vec::new();
        let mut rest = block;
        for length in &frames.fragments {
            let (fragment, later) = rest.split_at((*length).min(rest.len()));
            fragments.push(fragment);
            rest = later;
        }
        fragments.push(rest);
        let last = fragments.len() - 1;
        for (nth, fragment) in fragments.into_iter().enumerate() {
            let end_headers = if nth == last { 4 } else { 0 };
            if nth > 0 {
                self.frame(9, end_headers, stream, fragment);
                continue;
            }
            let (mut flags, mut payload) = (end_headers | u8::from(is_end), Vec::new());
            if let Some(padding) = frames.padding {
                flags |= 8;
                payload.push(padding);
            }
            if frames.priority {
                flags |= 0x20;
                payload.extend([0, 0, 0, 0, 7]);
            }
            payload.extend(fragment);
            payload.extend(vec![0; usize::from(frames.padding.unwrap_or(0))]);
            self.frame(1, flags, stream, &payload);
        }
        stream
    }

    pub(crate) fn block(&mut self, fields: &[Field], style: &Style) -> Vec<u8> {
        let mut block = Vec::new();
        if let Some(size) = style.table {
            self.size = size.min(TABLE);
            self.evict();
            integer(&mut block, 0x20, 5, self.size);
        }
        for field in fields {
            self.field(&mut block, field, style);
        }
        block
    }

    fn field(&mut self, block: &mut Vec<u8>, field: &Field, style: &Style) {
        let (name, value) = field;
        let known = STATIC.iter().find(|(_, known, _)| known == name);
        let exact = known.filter(|(_, _, known)| known == value && !style.names_written).map(|(index, ..)| *index);
        let remembered = style.indexed.then(|| self.table.iter().position(|known| known == field)).flatten();
        if let Some(index) = exact.or(remembered.map(|place| 62 + place)) {
            integer(block, 0x80, 7, index);
            return;
        }
        let (kind, bits) = match style {
            Style { indexed: true, .. } => (0x40, 6),
            Style { never: true, .. } => (0x10, 4),
            _ => (0, 4),
        };
        match known.filter(|_| !style.names_written) {
            Some((index, ..)) => integer(block, kind, bits, *index),
            None => {
                block.push(kind);
                text(block, name.as_bytes(), style.coded);
            }
        }
        text(block, value.as_bytes(), style.coded);
        if style.indexed {
            self.table.push_front(field.clone());
            self.evict();
        }
    }

    fn evict(&mut self) {
        let size = |(name, value): &Field| name.len() + value.len() + 32;
        while self.table.iter().map(size).sum::<usize>() > self.size {
            self.table.pop_back();
        }
    }
}

fn integer(block: &mut Vec<u8>, kind: u8, bits: u32, value: usize) {
    let most = (1_usize << bits) - 1;
    let byte = |value: usize| u8::try_from(value).expect("a byte");
    if value < most {
        block.push(kind | byte(value));
        return;
    }
    block.push(kind | byte(most));
    let mut rest = value - most;
    while rest >= 128 {
        block.push(byte(rest % 128) | 0x80);
        rest /= 128;
    }
    block.push(byte(rest));
}

fn text(block: &mut Vec<u8>, text: &[u8], coded: bool) {
    let bytes = if coded { huffman::encode(text) } else { text.to_vec() };
    integer(block, if coded { 0x80 } else { 0 }, 7, bytes.len());
    block.extend(bytes);
}
