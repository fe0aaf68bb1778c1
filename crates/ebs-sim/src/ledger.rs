//! Every call that reached the EC2 API, for tests and benches to read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;

/// Calls that are kept; older ones are forgotten and counted.
const KEPT: usize = 100_000;

/// One call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LedgerEntry {
    /// Its number; the first call of a run has 0.
    pub seq: u64,
    /// When it arrived, RFC 3339 with milliseconds.
    pub at: String,
    /// When it arrived, in milliseconds since 1970.
    pub at_ms: u64,
    /// Milliseconds from its arrival to its reply.
    pub ms: u64,
    /// The action as the client named it; empty when it named none.
    pub action: String,
    /// The parameters, without action, version and whatever signs the request.
    pub parameters: BTreeMap<String, String>,
    /// `ok`, EC2's error code, or `lost` for a request that never arrived. It tells what EC2 did, also where a fault
    /// rule took the reply away.
    pub outcome: String,
    /// The client only asked whether it would work.
    pub dry_run: bool,
    /// Id of the access key that signed it; `None`: it was not signed.
    pub access_key: Option<String>,
    /// EC2's id of the request.
    pub request_id: String,
    /// Kinds of the faults that hit it.
    pub faults: Vec<&'static str>,
    /// The policies that allow it, when policies are evaluated.
    pub allowed_by: Vec<String>,
}

/// A part of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LedgerPage {
    /// Ask from here next time.
    pub next: u64,
    /// Calls in the wanted range that are no longer kept.
    pub forgotten: u64,
    /// The calls, in the order in which they were answered.
    pub calls: Vec<LedgerEntry>,
}

/// The ledger; bounded in memory.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    next: u64,
    entries: VecDeque<LedgerEntry>,
}

/// A call that was answered, before it has a number.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) arrived: SystemTime,
    pub(crate) took: Duration,
    pub(crate) action: String,
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) outcome: String,
    pub(crate) dry_run: bool,
    pub(crate) access_key: Option<String>,
    pub(crate) request_id: String,
    pub(crate) faults: Vec<&'static str>,
    pub(crate) allowed_by: Vec<String>,
}

impl Ledger {
    /// Writes a call down.
    pub(crate) fn record(&self, call: Answered) {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = book.next;
        book.next += 1;
        if book.entries.len() == KEPT {
            book.entries.pop_front();
        }
        book.entries.push_back(LedgerEntry {
            seq,
            at: crate::wire::xml::timestamp(call.arrived),
            at_ms: millis(call.arrived.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()),
            ms: millis(call.took),
            action: call.action,
            parameters: call.parameters,
            outcome: call.outcome,
            dry_run: call.dry_run,
            access_key: call.access_key,
            request_id: call.request_id,
            faults: call.faults,
            allowed_by: call.allowed_by,
        });
    }

    /// The calls from number `since` on.
    pub(crate) fn since(&self, since: u64) -> LedgerPage {
        let book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = book.entries.front().map_or(book.next, |entry| entry.seq);
        // Entries are numbered without gaps.
        let skipped = usize::try_from(since.saturating_sub(oldest)).unwrap_or(usize::MAX);
        let calls = book.entries.iter().skip(skipped).cloned().collect();
        LedgerPage { next: book.next, forgotten: oldest.saturating_sub(since), calls }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(action: &str) -> Answered {
        Answered {
            arrived: SystemTime::UNIX_EPOCH,
            took: Duration::ZERO,
            action: action.into(),
            parameters: BTreeMap::new(),
            outcome: "ok".into(),
            dry_run: false,
            access_key: None,
            request_id: "r".into(),
            faults: Vec::new(),
            allowed_by: Vec::new(),
        }
    }

    #[test]
    fn a_reader_that_comes_back_sees_every_call_once() {
        let ledger = Ledger::default();
        ledger.record(call("A"));
        let first = ledger.since(0);
        ledger.record(call("B"));
        let second = ledger.since(first.next);
        assert_eq!(first.calls[0].action, "A");
        assert_eq!(second.calls.len(), 1);
        assert_eq!((second.calls[0].action.as_str(), second.calls[0].seq, second.next), ("B", 1, 2));
    }

    #[test]
    fn a_full_ledger_forgets_the_oldest_calls_and_says_how_many() {
        let ledger = Ledger::default();
        for _ in 0..KEPT + 3 {
            ledger.record(call("A"));
        }
        let page = ledger.since(1);
        assert_eq!((page.calls.len(), page.forgotten, page.calls[0].seq), (KEPT, 2, 3));
    }
}
