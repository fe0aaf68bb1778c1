//! Parses a client's frames (RFC 9113, sections 4 and 6) and rewrites authorities.

use std::ops::Range;

use crate::fields::{Fields, Seen};
use crate::replacement::replacement;

/// The longest authority that is rewritten, in bytes of the stream: more than the server's limit for all header fields.
pub(crate) const MAX_HELD: usize = 16 * 1024;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// The length of the additional fields in a frame with the flag [`PRIORITY`].
const PRIORITY_FIELDS: usize = 5;

/// Parses the bytes of one client in order. Overwrites authorities that the server would reject.
#[derive(Debug)]
pub(crate) struct Rewriter {
    at: At,
    /// The stream to which an incomplete header block belongs.
    block: Option<u32>,
    fields: Fields,
    authority: Option<Place>,
    /// How many bytes at the front of the next window are already parsed.
    looked_at: usize,
}

/// The position of the next byte in the client's stream.
#[derive(Debug, Clone, Copy)]
enum At {
    /// In the preface, after this many bytes of it.
    Preface(usize),
    /// In the head of a frame, of which this many bytes have been read.
    Head([u8; HEAD], usize),
    /// In a payload that is skipped. This many bytes remain until the next frame.
    Payload(usize),
    /// At the padding length of a frame with header fields.
    Padding(Part),
    Part(Part),
    /// The position is after bytes that the server will reject.
    Lost,
}

/// The rest of a frame with header fields, in bytes.
#[derive(Debug, Clone, Copy)]
struct Part {
    before: usize,
    fields: usize,
    padding: usize,
    /// True if the frame ends the header block.
    last: bool,
}

/// Where an authority is in the window.
#[derive(Debug)]
struct Place {
    start: usize,
    /// The pieces of the authority. There are several if frames end within it.
    pieces: Vec<Range<usize>>,
}

impl Rewriter {
    pub(crate) fn new() -> Self {
        Self { at: At::Preface(0), block: None, fields: Fields::new(), authority: None, looked_at: 0 }
    }

    /// Parses a window of the stream, and returns how many bytes at its front are final. The next window must begin
    /// with the remaining bytes, at most [`MAX_HELD`].
    pub(crate) fn pass(&mut self, window: &mut [u8]) -> usize {
        let mut at = self.looked_at;
        while at < window.len() {
            at += self.step(window, at);
        }
        if matches!(self.at, At::Lost) {
            self.authority = None;
        }
        let passed = match &mut self.authority {
            None => window.len(),
            Some(place) if window.len() - place.start <= MAX_HELD => place.move_up(),
            Some(_) => {
                self.pass_authority();
                window.len()
            }
        };
        self.looked_at = window.len() - passed;
        passed
    }

    /// Leaves all further bytes unchanged, including those that were not final yet.
    pub(crate) fn give_up(&mut self) {
        self.at = At::Lost;
        self.authority = None;
        self.looked_at = 0;
    }

    fn pass_authority(&mut self) {
        self.authority = None;
        self.fields.is_authority = false;
    }

    /// Parses bytes of one kind, beginning at `at`. Returns how many it parsed.
    fn step(&mut self, window: &mut [u8], at: usize) -> usize {
        let rest = window.len() - at;
        match self.at {
            At::Preface(had) => {
                let here = rest.min(PREFACE.len() - had);
                let is_preface = PREFACE[had..].starts_with(&window[at..at + here]);
                self.at = match had + here {
                    _ if !is_preface => At::Lost,
                    all if all == PREFACE.len() => At::Head([0; HEAD], 0),
                    some => At::Preface(some),
                };
                here
            }
            At::Head(mut head, had) => {
                let here = rest.min(HEAD - had);
                head[had..had + here].copy_from_slice(&window[at..at + here]);
                self.at = if had + here == HEAD { self.frame(head) } else { At::Head(head, had + here) };
                here
            }
            At::Payload(left) => {
                let here = rest.min(left);
                self.at = if here == left { At::Head([0; HEAD], 0) } else { At::Payload(left - here) };
                here
            }
            At::Padding(mut part) => {
                part.padding = usize::from(window[at]);
                self.at = match part.fields.checked_sub(part.padding) {
                    Some(fields) => self.then(Part { fields, ..part }),
                    None => At::Lost,
                };
                1
            }
            At::Part(part) => self.part(part, window, at),
            At::Lost => rest,
        }
    }

    fn frame(&mut self, head: [u8; HEAD]) -> At {
        let [high, middle, low, kind, flags, stream @ ..] = head;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        // The highest bit is reserved.
        let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
        let last = flags & END_HEADERS != 0;
        match (self.block, kind) {
            (None, HEADERS) => {
                self.block = Some(stream);
                let before = if flags & PRIORITY != 0 { PRIORITY_FIELDS } else { 0 };
                match length.checked_sub(before + usize::from(flags & PADDED != 0)) {
                    None => At::Lost,
                    Some(fields) if flags & PADDED != 0 => At::Padding(Part { before, fields, padding: 0, last }),
                    Some(fields) => self.then(Part { before, fields, padding: 0, last }),
                }
            }
            (Some(open), CONTINUATION) if open == stream => {
                self.then(Part { before: 0, fields: length, padding: 0, last })
            }
            (Some(_), _) => At::Lost,
            (None, _) => At::Payload(length),
        }
    }

    /// Returns the parser's next position, given that `part` of the frame remains.
    fn then(&mut self, part: Part) -> At {
        if part.before > 0 || part.fields > 0 {
            return At::Part(part);
        }
        if part.last {
            self.block = None;
            if !self.fields.is_between_fields() {
                return At::Lost;
            }
        }
        At::Payload(part.padding)
    }

    fn part(&mut self, mut part: Part, window: &mut [u8], at: usize) -> usize {
        let rest = window.len() - at;
        if part.before > 0 {
            let here = rest.min(part.before);
            part.before -= here;
            self.at = self.then(part);
            return here;
        }
        let (here, seen) = self.fields.look(&mut window[at..at + rest.min(part.fields)]);
        part.fields -= here;
        self.at = if seen == Seen::Broken { At::Lost } else { self.then(part) };
        if let Seen::Authority { coded, last } = seen {
            self.have_authority(at..at + here, coded, last, window);
        }
        here
    }

    /// Rewrites the authority once its last piece has arrived.
    fn have_authority(&mut self, piece: Range<usize>, coded: bool, last: bool, window: &mut [u8]) {
        let place = self.authority.get_or_insert_with(|| Place { start: piece.start, pieces: Vec::new() });
        let length = piece.end - place.start;
        place.add(piece);
        if length > MAX_HELD {
            self.pass_authority();
        } else if last && let Some(place) = self.authority.take() {
            place.overwrite(coded, window);
        }
    }
}

impl Place {
    fn add(&mut self, piece: Range<usize>) {
        match self.pieces.last_mut() {
            Some(before) if before.end == piece.start => before.end = piece.end,
            _ => self.pieces.push(piece),
        }
    }

    /// Adjusts the positions for a window that begins with the authority. Returns the number of bytes before it.
    fn move_up(&mut self) -> usize {
        let passed = std::mem::take(&mut self.start);
        for piece in &mut self.pieces {
            *piece = piece.start - passed..piece.end - passed;
        }
        passed
    }

    fn overwrite(&self, coded: bool, window: &mut [u8]) {
        let encoded: Vec<u8> = self.pieces.iter().flat_map(|piece| &window[piece.clone()]).copied().collect();
        let Some(name) = replacement(&encoded, coded) else { return };
        let mut rest = &name[..];
        for piece in &self.pieces {
            let (here, later) = rest.split_at(piece.len());
            window[piece.clone()].copy_from_slice(here);
            rest = later;
        }
    }
}
