//! Tests with random streams: well-formed ones in any encoding, damaged ones, and ones that are not HTTP/2. The number
//! of cases is limited here. `make fuzz CASES=100000` runs more.

use http::uri::Authority;
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::huffman;
use crate::replacement::replacement;
use crate::tests::{Answer, Client, Field, Frames, Style, answers, rewritten, whole};

/// Returns the configuration with the number of cases from the environment, or `usual` if it is not set.
fn cases(usual: u32) -> Config {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    Config { cases: asked.unwrap_or(usual), failure_persistence: None, ..Config::default() }
}

#[derive(Debug, Clone)]
struct Call {
    authority: String,
    others: Vec<Field>,
    style: Style,
    frames: Frames,
    body: Option<Vec<u8>>,
}

fn taken() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9.-]{1,40}", "[a-z]{1,9}:[0-9]{1,5}", Just("[::1]:80".to_owned())]
}

fn authority() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => taken(),
        3 => "/[a-z0-9/._-]{0,60}",
        3 => "(%2F[a-zA-Z0-9._-]{1,12}){1,6}",
        2 => r"(\\[a-z.-]{0,9}){1,6}",
        2 => "[ -~]{1,40}",
        1 => "\\PC{1,20}",
        1 => Just(String::new()),
    ]
}

fn style() -> impl Strategy<Value = Style> {
    let table = prop::option::weighted(0.2, 0..5000_usize);
    (any::<[bool; 4]>(), table).prop_map(|([coded, indexed, names_written, never], table)| Style {
        coded,
        indexed,
        names_written,
        never,
        table,
    })
}

fn frames() -> impl Strategy<Value = Frames> {
    let fragments = prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec(0..50_usize, 0..20)];
    (prop::option::weighted(0.3, any::<u8>()), any::<bool>(), fragments)
        .prop_map(|(padding, priority, fragments)| Frames { padding, priority, fragments })
}

fn call(authority: impl Strategy<Value = String>) -> impl Strategy<Value = Call> {
    let long = prop::char::range('a', 'z').prop_map(|letter| String::from(letter).repeat(600));
    let value = prop_oneof!["[!-~]{1,20}".boxed(), long.boxed()];
    let other = ("x-[a-z]{1,3}", value);
    let others = prop::collection::vec(other, 0..4);
    let body = prop::option::of(prop::collection::vec(any::<u8>(), 0..40));
    (authority, others, style(), frames(), body).prop_map(|(authority, others, style, frames, body)| Call {
        authority,
        others,
        style,
        frames,
        body,
    })
}

/// Generates the calls of one client, which Huffman-codes either all texts or none. Some authorities occur repeatedly.
fn calls() -> impl Strategy<Value = Vec<Call>> {
    let some = prop::collection::vec(authority(), 1..4);
    let calls = some
        .prop_flat_map(|some| prop::collection::vec(call(prop_oneof![prop::sample::select(some), authority()]), 1..8));
    (calls, any::<bool>()).prop_map(|(mut calls, coded)| {
        calls.iter_mut().for_each(|call| call.style.coded = coded);
        calls
    })
}

fn stream_of(calls: &[Call]) -> Vec<u8> {
    let mut client = Client::new();
    for call in calls {
        let pseudo = [(":method", "POST"), (":path", "/x"), (":scheme", "http"), (":authority", &call.authority)];
        let mut fields: Vec<Field> =
            pseudo.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        fields.extend(call.others.clone());
        match &call.body {
            Some(body) => client.request_with_body(&fields, &call.style, body),
            None => client.request(&fields, &call.style, &call.frames),
        };
        client.frame(8, 0, 0, &[0, 0, 0, 1]);
        client.frame(0xfa, 0xff, 0, &call.authority.as_bytes()[..call.authority.len().min(9)]);
    }
    client.bytes
}

/// Returns the answer that the server should send.
fn expected(call: &Call) -> Answer {
    let reset = Answer::Reset(1);
    let mut fields = call.others.clone();
    let authority = &call.authority;
    let name = if Authority::try_from(&authority[..]).is_ok() {
        Some(authority.clone())
    } else if authority.is_empty() {
        if call.style.names_written {
            return reset;
        }
        fields.insert(0, ("host".to_owned(), String::new()));
        None
    } else if call.style.coded {
        match replacement(&huffman::encode(authority.as_bytes()), true) {
            Some(name) => Some(String::from_utf8(huffman::decode(&name).expect("a code")).expect("a name")),
            None => return reset,
        }
    } else {
        let name = |byte: u8| if byte.is_ascii_alphanumeric() || byte == b'.' { char::from(byte) } else { '-' };
        Some(authority.bytes().map(name).collect())
    };
    Answer::Served { authority: name, path: "/x".to_owned(), fields: grouped(fields) }
}

/// Groups fields by name, as a header map does.
fn grouped(fields: Vec<Field>) -> Vec<Field> {
    let mut together: Vec<Field> = Vec::new();
    for (name, value) in fields {
        let after = together.iter().rposition(|(other, _)| *other == name).map_or(together.len(), |place| place + 1);
        together.insert(after, (name, value));
    }
    together
}

fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..8);
    (calls(), changes).prop_map(|(calls, changes)| {
        let mut stream = stream_of(&calls);
        for (at, byte, how) in changes {
            let at = at.index(stream.len());
            match how {
                0 => stream.insert(at, byte),
                1 => drop(stream.remove(at)),
                _ => stream[at] = byte,
            }
        }
        stream
    })
}

/// Generates a stream without a valid preface, or with random bytes after it.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let preface = prop_oneof![Just(vec![]), Just(Client::new().bytes)];
    let frame = (0..40_u32, prop_oneof![Just(1_u8), Just(9), any::<u8>()], any::<[u8; 5]>());
    let piece = (prop::option::of(frame), prop::collection::vec(any::<u8>(), 0..60)).prop_map(|(head, bytes)| {
        let head = head.map(|(length, kind, rest)| [&length.to_be_bytes()[1..], &[kind], &rest].concat());
        [head.unwrap_or_default(), bytes].concat()
    });
    (preface, prop::collection::vec(piece, 0..20)).prop_map(|(preface, pieces)| [preface, pieces.concat()].concat())
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![1..5_usize, 1..200_usize], 1..20)
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn requests_arrive_with_valid_authority(calls in calls()) {
        let answers = answers(&stream_of(&calls), calls.len(), true);
        let expected: Vec<Answer> = calls.iter().map(expected).collect();
        prop_assert_eq!(answers, expected);
    }

    #[test]
    fn rewriting_gives_same_result_for_split_or_rewritten_stream(calls in calls(), pieces in pieces()) {
        let stream = stream_of(&calls);
        let once = whole(&stream);
        prop_assert_eq!(once.len(), stream.len());
        prop_assert_eq!(&rewritten(&stream, &pieces).0, &once);
        prop_assert_eq!(&whole(&once), &once);
    }

    #[test]
    fn streams_with_valid_authorities_are_unchanged(calls in prop::collection::vec(call(taken()), 1..8)) {
        let stream = stream_of(&calls);
        prop_assert_eq!(whole(&stream), stream);
    }

    #[test]
    fn rewriting_keeps_the_length_of_an_invalid_stream(
        stream in prop_oneof![damaged(), garbage(), prop::collection::vec(any::<u8>(), 0..200)],
        pieces in pieces(),
    ) {
        let once = whole(&stream);
        prop_assert_eq!(once.len(), stream.len());
        prop_assert_eq!(rewritten(&stream, &pieces).0, once);
    }

    #[test]
    fn replacement_is_a_valid_authority_of_the_same_length(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Some(name) = replacement(&bytes, true) {
            prop_assert_eq!(name.len(), bytes.len());
            let (old, new) = (huffman::decode(&bytes).expect("a code"), huffman::decode(&name).expect("a code"));
            prop_assert_eq!(old.len(), new.len());
            prop_assert!(Authority::try_from(&new[..]).is_ok());
        }
    }
}
