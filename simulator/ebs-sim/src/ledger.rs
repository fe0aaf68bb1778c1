//! The record of every call that reached the EC2 API, for tests and benchmarks. It keeps calls as lines of JSON, so
//! that a page is copied, not formatted.

mod file;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use file::LedgerFile;

/// Maximum number of calls. The ledger drops older calls, and counts them.
const KEPT: usize = 100_000;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// The number of the call, from 0. Numbers continue when the simulator restarts with the same state directory.
    pub seq: u64,
    /// Time of arrival, RFC 3339 with milliseconds.
    pub at: String,
    /// Time of arrival, in milliseconds since 1970.
    pub at_ms: u64,
    /// Milliseconds from the arrival of the call to its reply.
    pub ms: u64,
    /// The action in the request; empty if it is missing.
    pub action: String,
    /// The parameters, without action, version and signature.
    pub parameters: BTreeMap<String, String>,
    /// `ok`, EC2's error code, or `lost` for a request that never arrived. A fault rule that drops the reply does not
    /// change it.
    pub outcome: String,
    /// Whether the call was a dry run.
    pub dry_run: bool,
    /// Id of the access key that signed the request, or `None` if it was not signed.
    pub access_key: Option<String>,
    /// EC2's request id.
    pub request_id: String,
    /// The kinds of faults that affected the call.
    pub faults: Vec<String>,
    /// The project's policies that allow the call, with the additions that they need (`managed-v2`,
    /// `legacy-example+kms`). Empty unless calls are audited.
    pub allowed_by: Vec<String>,
    /// Why each policy denies the call. Empty if one policy allows the call without additions.
    pub denied: Vec<String>,
}

/// A part of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerPage {
    /// The number from which the client should read next.
    pub next: u64,
    /// The number of dropped calls in the requested range.
    pub forgotten: u64,
    /// The calls, in the order in which they were answered.
    pub calls: Vec<LedgerEntry>,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<LedgerState>);

#[derive(Debug, Default)]
struct LedgerState {
    next: u64,
    /// Entries as JSON. Their numbers have no gaps and end before `next`.
    lines: VecDeque<Box<str>>,
    file: Option<LedgerFile>,
}

impl LedgerEntry {
    /// Returns whether the call succeeded and was not a dry run.
    pub fn did_work(&self) -> bool {
        self.outcome == "ok" && !self.dry_run
    }

    pub fn is_read(&self) -> bool {
        self.action.starts_with("Describe")
    }

    pub(crate) fn timed(mut self, arrived: SystemTime, took: Duration) -> Self {
        self.at = crate::wire::xml::timestamp(arrived);
        self.at_ms = millis(arrived.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        self.ms = millis(took);
        self
    }
}

impl LedgerPage {
    /// Counts the successful calls of an action.
    pub fn done(&self, action: &str) -> usize {
        self.calls.iter().filter(|call| call.action == action && call.did_work()).count()
    }

    /// Returns the mutating calls, including failed ones but not dry runs.
    pub fn mutations(&self) -> Vec<&LedgerEntry> {
        self.calls.iter().filter(|call| !call.is_read() && !call.dry_run).collect()
    }

    /// Formats the number of calls by action: `CreateVolume 1, DescribeVolumes 2`.
    pub fn summary(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for call in &self.calls {
            *counts.entry(&call.action).or_default() += 1;
        }
        let parts: Vec<String> = counts.into_iter().map(|(action, n)| format!("{action} {n}")).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    }
}

impl Ledger {
    /// Opens a ledger that continues after the previous run in this directory. Blocks.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let (file, lines) = LedgerFile::open(dir, KEPT)?;
        let next = lines.back().and_then(|line| seq_of(line)).map_or(0, |seq| seq + 1);
        Ok(Self(Mutex::new(LedgerState { next, lines, file: Some(file) })))
    }

    /// Records a call under the next number. The record survives a later kill of the simulator.
    pub(crate) fn record(&self, mut entry: LedgerEntry) {
        let mut state = self.lock();
        entry.seq = state.next;
        state.next += 1;
        if state.lines.len() == KEPT {
            state.lines.pop_front();
        }
        let line = serde_json::to_string(&entry).expect("an entry is plain data");
        if let Some(file) = &mut state.file
            && let Err(error) = file.append(&line)
        {
            tracing::error!(%error, "failed to write a call to the ledger file, so the next run will lack the call");
        }
        state.lines.push_back(line.into_boxed_str());
    }

    pub(crate) fn since(&self, since: u64) -> LedgerPage {
        serde_json::from_str(&self.page(since, usize::MAX)).expect("a page is made of entries")
    }

    /// Returns the calls from number `since` on, at most `limit`, as JSON.
    pub(crate) fn page(&self, since: u64, limit: usize) -> String {
        let state = self.lock();
        let oldest = state.next - u64::try_from(state.lines.len()).unwrap_or(0);
        let skipped = usize::try_from(since.saturating_sub(oldest)).unwrap_or(usize::MAX);
        let wanted = state.lines.iter().skip(skipped).take(limit);
        let taken = wanted.clone().count();
        let next = match state.lines.len().checked_sub(skipped) {
            Some(left) => state.next - u64::try_from(left - taken).unwrap_or(0),
            None => state.next,
        };
        let bytes: usize = wanted.clone().map(|line| line.len() + 1).sum();
        let mut page = String::with_capacity(bytes + 100);
        page.push_str(&format!("{{\"next\":{next},\"forgotten\":{},\"calls\":[", oldest.saturating_sub(since)));
        for (at, line) in wanted.enumerate() {
            if at > 0 {
                page.push(',');
            }
            page.push_str(line);
        }
        page.push_str("]}");
        page
    }

    fn lock(&self) -> MutexGuard<'_, LedgerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn seq_of(line: &str) -> Option<u64> {
    serde_json::from_str::<LedgerEntry>(line).ok().map(|entry| entry.seq)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
