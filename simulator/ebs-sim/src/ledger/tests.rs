//! Tests of the ledger in memory and on disk.

use super::*;

fn call(action: &str) -> LedgerEntry {
    let entry = LedgerEntry {
        action: action.into(),
        parameters: BTreeMap::from([("VolumeId".to_owned(), "vol-1".to_owned())]),
        outcome: "ok".into(),
        access_key: Some("AKIA1".into()),
        request_id: "r".into(),
        faults: vec!["delay-reply".into()],
        allowed_by: vec!["managed-v2".into()],
        ..LedgerEntry::default()
    };
    entry.timed(SystemTime::UNIX_EPOCH + Duration::from_millis(1_500), Duration::from_millis(7))
}

fn actions(page: &LedgerPage) -> Vec<(u64, &str)> {
    page.calls.iter().map(|entry| (entry.seq, entry.action.as_str())).collect()
}

#[test]
fn ledger_entry_has_arrival_duration_caller_and_faults() {
    let ledger = Ledger::default();
    ledger.record(call("A"));
    let entry = ledger.since(0).calls.remove(0);
    assert_eq!((entry.at.as_str(), entry.at_ms, entry.ms), ("1970-01-01T00:00:01.500Z", 1_500, 7));
    assert_eq!((entry.access_key.as_deref(), entry.request_id.as_str()), (Some("AKIA1"), "r"));
    assert_eq!((entry.faults, entry.allowed_by), (vec!["delay-reply".to_owned()], vec!["managed-v2".to_owned()]));
    assert_eq!(entry.parameters["VolumeId"], "vol-1");
}

#[test]
fn limited_ledger_page_names_the_next_call_number() {
    let ledger = Ledger::default();
    ["A", "B", "C"].into_iter().for_each(|action| ledger.record(call(action)));
    let page = |since, limit| serde_json::from_str::<LedgerPage>(&ledger.page(since, limit)).unwrap();
    assert_eq!((actions(&page(0, 2)), page(0, 2).next), (vec![(0, "A"), (1, "B")], 2));
    assert_eq!((actions(&page(2, 2)), page(2, 2).next), (vec![(2, "C")], 3));
    assert_eq!(page(0, 0).next, 0);
}

#[test]
fn full_ledger_drops_and_counts_oldest_calls() {
    let ledger = Ledger::default();
    for _ in 0..KEPT + 3 {
        ledger.record(call("A"));
    }
    let page: LedgerPage = serde_json::from_str(&ledger.page(1, 1)).unwrap();
    assert_eq!((page.forgotten, page.calls[0].seq, page.next), (2, 3, 4));
    assert_eq!(ledger.lock().lines.len(), KEPT);
}

#[test]
fn next_run_continues_the_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let first = Ledger::open(dir.path()).unwrap();
    first.record(call("A"));
    first.record(call("B"));
    drop(first);
    let second = Ledger::open(dir.path()).unwrap();
    second.record(call("C"));
    assert_eq!(actions(&second.since(0)), [(0, "A"), (1, "B"), (2, "C")]);
}

#[test]
fn incomplete_ledger_line_after_a_kill_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    Ledger::open(dir.path()).unwrap().record(call("A"));
    let path = dir.path().join("ledger.jsonl");
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
    Ledger::open(dir.path()).unwrap().record(call("B"));
    assert_eq!(actions(&Ledger::open(dir.path()).unwrap().since(0)), [(0, "A"), (1, "B")]);
}

#[test]
fn ledger_has_two_bounded_files() {
    let dir = tempfile::tempdir().unwrap();
    let (mut file, _) = LedgerFile::with(dir.path(), 100, 1_000).unwrap();
    let line = "x".repeat(99);
    for _ in 0..35 {
        file.append(&line).unwrap();
    }
    drop(file);
    let sizes: Vec<u64> =
        std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).collect();
    assert_eq!((sizes.len(), sizes.iter().sum::<u64>()), (2, 1_500));
    let (_, lines) = LedgerFile::with(dir.path(), 12, 1_000).unwrap();
    assert_eq!(lines.len(), 12, "both files are read");
}
