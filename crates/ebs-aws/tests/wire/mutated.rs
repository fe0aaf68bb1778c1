//! Changes a few bytes of replies and reads them with the SDK's runtime. This must never cause a panic or a wrong
//! success.
//!
//! The seeds are the files of `tests/corpus`. Earlier failures are stored next to this file and run first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ebs_aws::{AwsEc2, Transport};
use ebs_ec2::{Ec2Error, ErrorClass};
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestCaseResult, TestRunner};

use crate::fixtures::{MUTATIONS, Objects, READS, call};
use crate::{corpus, in_process};

/// One change of a reply. Positions are fractions of the whole reply, so that they remain valid when proptest shrinks
/// it.
#[derive(Debug, Clone)]
enum Change {
    Replace(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    CutAt(prop::sample::Index),
}

impl Change {
    fn apply(&self, text: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        match self {
            Self::Replace(at, byte) => {
                let at = at.index(text.len());
                text[at] = *byte;
            }
            Self::Insert(at, bytes) => {
                let at = at.index(text.len());
                text.splice(at..at, bytes.iter().copied());
            }
            Self::Remove(at, count) => {
                let at = at.index(text.len());
                text.drain(at..(at + count).min(text.len()));
            }
            Self::CutAt(at) => text.truncate(at.index(text.len())),
        }
    }
}

/// Generates bytes. Those with a meaning in XML and EC2 are more frequent than others.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        3 => prop::sample::select(b"<>/&;!-[]?\"'= \n0123456789aevxAZ\x00\xff".to_vec()),
        1 => any::<u8>(),
    ]
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let at = any::<prop::sample::Index>;
    let change = prop_oneof![
        4 => (at(), byte()).prop_map(|(at, byte)| Change::Replace(at, byte)),
        2 => (at(), prop::collection::vec(byte(), 1..8)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        // The count is too small to remove a whole list.
        2 => (at(), 1..12_usize).prop_map(|(at, count)| Change::Remove(at, count)),
        1 => at().prop_map(Change::CutAt),
    ];
    prop::collection::vec(change, 1..4)
}

/// The fields of a result whose values come from the reply.
const FACTS: [&str; 8] =
    ["id: ", "volume: ", "instance: ", "source_volume: ", "snapshot: ", "state: ", "details: ", "message: "];

fn facts(result: &str) -> Vec<&str> {
    let pieces = result.split([',', '{', '[', '}']).map(str::trim);
    pieces.filter(|piece| FACTS.iter().any(|name| piece.starts_with(name))).collect()
}

/// Returns true if a changed reply may have another value in this field. The request does not determine the id of a new
/// object, the volumes of an instance's devices, or the cause of a failure.
fn is_free(action: &str, fact: &str) -> bool {
    match action {
        "CreateVolume" | "CopyVolumes" => fact.starts_with("id: ") || fact.starts_with("source_volume: "),
        "CreateSnapshot" | "DescribeAvailabilityZones" => fact.starts_with("id: "),
        "DescribeInstances" => !fact.starts_with("id: "),
        "DescribeVolumes" => fact.starts_with("instance: ") || fact.starts_with("source_volume: "),
        "DescribeSnapshots" => fact.starts_with("source_volume: "),
        _ => fact.starts_with("message: "),
    }
}

/// Panics if a success is wrong: its objects, their number or their states differ from the corpus. A state that the
/// driver does not know is correct.
fn judge(action: &str, result: &str, right: &str) {
    let (right, found) = (facts(right), facts(result));
    assert_eq!(found.len(), right.len(), "{action}: {result}");
    for (found, right) in found.iter().zip(right) {
        let is_other = found.contains("Other(") || found.starts_with("snapshot: Some(") || *found == "snapshot: None";
        assert!(*found == right || is_other || is_free(action, right), "{action}: {found} instead of {right}");
    }
}

/// A client whose transport returns the reply that a shared slot holds.
struct Bench {
    runtime: tokio::runtime::Runtime,
    slot: Arc<Mutex<(u16, Bytes)>>,
    ec2: AwsEc2,
}

impl Bench {
    fn new() -> Self {
        // With paused time, the pauses between the attempts of a describe take no time.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let slot = Arc::new(Mutex::new((200, Bytes::new())));
        let answers = Arc::clone(&slot);
        let transport = Transport::answering(move |_| {
            let (status, body) = answers.lock().unwrap().clone();
            async move { Ok(http::Response::builder().status(status).body(body).unwrap()) }
        });
        let ec2 = runtime.block_on(in_process::client(transport));
        Self { runtime, slot, ec2 }
    }

    fn results(&self) -> BTreeMap<&'static str, String> {
        let read = |action| self.call(action, 200, corpus::read(action).into_bytes()).unwrap();
        [&MUTATIONS[..], &READS].concat().into_iter().map(|action| (action, read(action))).collect()
    }

    fn call(&self, action: &str, status: u16, body: Vec<u8>) -> Result<String, Ec2Error> {
        *self.slot.lock().unwrap() = (status, Bytes::from(body));
        self.runtime.block_on(call(&self.ec2, action, &Objects::of_corpus()))
    }
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        source_file: Some(file!()),
        ..ProptestConfig::default()
    })
}

fn action() -> impl Strategy<Value = &'static str> {
    prop::sample::select([&MUTATIONS[..], &READS].concat())
}

/// The corpus has every element that the adapter reads.
#[test]
fn reply_of_each_action_is_read_with_all_fields() {
    let lines = Bench::new().results().into_iter().map(|(action, result)| format!("{action}: {result}"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn corrupted_reply_never_yields_a_wrong_success() {
    let bench = Bench::new();
    let right = bench.results();
    let check = |(action, changes): (&str, Vec<Change>)| -> TestCaseResult {
        let mut body = corpus::read(action).into_bytes();
        changes.iter().for_each(|change| change.apply(&mut body));
        match bench.call(action, 200, body) {
            Ok(result) => judge(action, &result, &right[action]),
            Err(error) => {
                let is_open = error.class == ErrorClass::Ambiguous;
                prop_assert!(is_open || READS.contains(&action), "{action}: {error} is {:?}", error.class);
            }
        }
        Ok(())
    };
    runner(1500).run(&(action(), changes()), check).unwrap();
}

#[test]
fn corrupted_error_or_random_bytes_never_yield_a_success() {
    let bench = Bench::new();
    let error = |(action, changes): (&str, Vec<Change>)| -> TestCaseResult {
        let mut body = corpus::read("error").into_bytes();
        changes.iter().for_each(|change| change.apply(&mut body));
        prop_assert!(bench.call(action, 400, body).is_err(), "{action}");
        Ok(())
    };
    runner(500).run(&(action(), changes()), error).unwrap();
    let random = |(action, body): (&str, Vec<u8>)| -> TestCaseResult {
        prop_assert!(bench.call(action, 200, body).is_err(), "{action}");
        Ok(())
    };
    runner(300).run(&(action(), prop::collection::vec(byte(), 0..200)), random).unwrap();
}
