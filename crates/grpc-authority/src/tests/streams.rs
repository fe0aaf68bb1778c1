//! Tests streams of the configurable client.

use super::{Answer, Client, Field, Frames, Style, answers, rewritten, whole};
use crate::rewriter::{MAX_HELD, Rewriter};

pub(crate) fn fields(authority: &str, others: &[(&str, &str)]) -> Vec<Field> {
    let pseudo =
        [(":method", "POST"), (":scheme", "http"), (":path", "/csi.v1.Identity/Probe"), (":authority", authority)];
    pseudo.iter().chain(others).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn served_as(answer: &Answer) -> &str {
    match answer {
        Answer::Served { authority: Some(authority), .. } => authority,
        other => panic!("not served with an authority: {other:?}"),
    }
}

#[test]
fn invalid_authority_up_to_16_kib_is_replaced() {
    for (length, is_changed) in [(MAX_HELD, true), (MAX_HELD + 1, false), (1 << 20, false)] {
        let authority = "/".repeat(length);
        let mut client = Client::new();
        let frames = Frames { fragments: vec![16_000; 1000], ..Frames::default() };
        let first = fields("/csi/csi.sock", &[]);
        client.request(&first, &Style::default(), &Frames::default());
        // If the authority is short enough to be held back, a frame ends before the authority, not within it.
        let block = client.block(&fields(&authority, &[]), &Style::default());
        let before = block.len() - length;
        let fragments = if length <= MAX_HELD { vec![before] } else { frames.fragments };
        client.headers(&block, true, &Frames { fragments, ..Frames::default() });
        client.request(&first, &Style::default(), &Frames::default());
        for pieces in [vec![], vec![1 << 13], vec![4000, 1, 99]] {
            let (passed, waited) = rewritten(&client.bytes, &pieces);
            assert!(waited <= MAX_HELD, "{waited} bytes waited");
            let slashes = passed.iter().filter(|byte| **byte == b'/').count();
            assert_eq!(slashes > length, !is_changed, "{length} bytes, in pieces of {pieces:?}");
            assert!(passed.ends_with(&whole(&client.bytes)[passed.len() - 100..]));
        }
    }
}

#[test]
fn unfixable_authority_fails_only_its_own_request() {
    let good = fields("/csi/csi.sock", &[]);
    let style = Style { indexed: true, ..Style::default() };
    // The name is the index of the entry that the first request has added to the dynamic table, whose indexes begin at
    // 62.
    let by_dynamic_name = [&[0x83, 0x86, 0x84, 0x7f, 0x00, 0x04][..], b"/csi"].concat();
    let wasteful = {
        let coded = crate::huffman::encode(br"\\\");
        [&[0x83, 0x86, 0x84, 0x41, 0x80 | u8::try_from(coded.len()).expect("short")][..], &coded].concat()
    };
    let written_empty = [0x83, 0x86, 0x84, 0x01, 0x00].to_vec();
    for block in [by_dynamic_name, wasteful, written_empty] {
        let mut client = Client::new();
        client.request(&good, &style, &Frames::default());
        client.headers(&block, true, &Frames::default());
        client.request(&fields("/csi/other.sock", &[]), &Style::default(), &Frames::default());
        let answers = answers(&client.bytes, 3, true);
        assert_eq!(served_as(&answers[0]), "-csi-csi.sock");
        assert_eq!(answers[1], Answer::Reset(1), "{block:x?}");
        assert_eq!(served_as(&answers[2]), "-csi-other.sock");
    }
}

#[test]
fn bytes_that_are_not_http2_pass_unchanged() {
    let request = fields("/csi/csi.sock", &[]);
    let block = Client::new().block(&request, &Style::default());
    let after = |wrong: &dyn Fn(&mut Client)| {
        let mut client = Client::new();
        wrong(&mut client);
        client.request(&request, &Style::default(), &Frames::default());
        client.bytes
    };
    let rows = [
        ("HTTP/1", [b"GET / HTTP/1.1\r\nhost: /a/b\r\n\r\n", &Client::new().bytes[..]].concat(), None),
        (
            "a frame within a block",
            after(&|client| {
                client.frame(1, 1, 1, &block[..3]);
                client.frame(6, 0, 0, &[0; 8]);
            }),
            Some(1),
        ),
        (
            "a block of another stream within a block",
            after(&|client| {
                client.frame(1, 1, 1, &block[..3]);
                client.frame(9, 4, 3, &block[3..]);
            }),
            Some(1),
        ),
        ("more padding than there is", after(&|client| client.frame(1, 0xd, 1, &[4, 0x83, 0x86, 0x84])), Some(1)),
        ("priority without its fields", after(&|client| client.frame(1, 0x25, 1, &[0x83, 0x86])), Some(1)),
        ("padding without its length", after(&|client| client.frame(1, 0xd, 1, &[])), Some(1)),
        (
            "an integer without an end",
            after(&|client| client.frame(1, 5, 1, &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff])),
            Some(9),
        ),
        (
            "a block that ends within a field",
            after(&|client| client.frame(1, 5, 1, &[0x83, 0x41, 0x05, b'/'])),
            Some(9),
        ),
    ];
    for (what, stream, code) in rows {
        assert_eq!(whole(&stream), stream, "{what}");
        if let Some(code) = code {
            let [Answer::Closed(says)] = answers(&stream, 1, true)[..] else { panic!("{what}: the connection lives") };
            assert!(says == 1 || says == code, "{what}: {says}");
        }
    }
}

#[test]
fn bytes_are_held_until_the_authority_field_is_complete() {
    let begun = [0x83, 0x41, 0x09, b'/'];
    let mut waits = Client::new();
    waits.frame(1, 0, 1, &begun);
    let mut ended = Client::new();
    ended.frame(1, 4, 1, &begun);
    let mut interrupted = Client::new();
    interrupted.frame(1, 0, 1, &begun);
    interrupted.frame(4, 1, 0, &[]);
    for (mut client, waiting) in [(waits, 1), (ended, 0), (interrupted, 0)] {
        let passed = Rewriter::new().pass(&mut client.bytes);
        assert_eq!(client.bytes.len() - passed, waiting, "{:x?}", client.bytes);
    }
}
