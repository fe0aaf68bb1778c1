//! Computes the odds that the blank proof overlooks data, based on the places that the proof reads. With
//! `EBS_WRITE_DOCS=1` in its environment, the test writes the odds into the documentation.

use ebs_testkit::doc_table;

use super::blank::{self, PAGE};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
/// The disk sizes and data sizes of the tables.
const DISKS: [(u64, &str); 5] =
    [(10 * GIB, "10 GiB"), (100 * GIB, "100 GiB"), (TIB, "1 TiB"), (4 * TIB, "4 TiB"), (16 * TIB, "16 TiB")];
const PIECES: [(u64, &str); 7] = [
    (PAGE, "4 KiB"),
    (MIB, "1 MiB"),
    (10 * MIB, "10 MiB"),
    (100 * MIB, "100 MiB"),
    (GIB, "1 GiB"),
    (4 * GIB, "4 GiB"),
    (16 * GIB, "16 GiB"),
];
/// Of this many pages, one contains data.
const SHARES: [u32; 4] = [1_000_000, 100_000, 10_000, 1_000];

/// Returns the ranges of a disk that the blank proof reads, in order and without overlaps.
fn read(size: u64) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = blank::copies_of_superblocks(size).into_iter().collect();
    all.extend(blank::sampled(size, blank::seed("vol-0123456789abcdef0")));
    all.extend([(0, blank::END), (size - blank::END, size)]);
    all.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (from, to) in all {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// Returns the probability that the proof overlooks a whole piece of data at a random page-aligned position.
fn overlooked(size: u64, piece: u64) -> f64 {
    let read = read(size);
    let gaps = read.windows(2).map(|pair| pair[1].0 - pair[0].1);
    let begins: u64 = gaps.map(|gap| (gap / PAGE + 1).saturating_sub(piece / PAGE)).sum();
    ratio(begins, size / PAGE - piece / PAGE + 1)
}

/// Returns the probability that the proof reads no page with data, if one in `one_of` pages, at random, contains data.
fn overlooked_when_spread(size: u64, one_of: u32) -> f64 {
    let pages: u64 = read(size).iter().map(|(from, to)| (to - from) / PAGE).sum();
    let pages = u32::try_from(pages).expect("the number of pages fits into 32 bits");
    (f64::from(pages) * (-1.0 / f64::from(one_of)).ln_1p()).exp()
}

fn ratio(part: u64, whole: u64) -> f64 {
    let number = |n: u64| {
        f64::from(u32::try_from(n >> 32).expect("half")) * 4_294_967_296.0
            + f64::from(u32::try_from(n & 0xffff_ffff).expect("half"))
    };
    number(part) / number(whole)
}

fn percent(odds: f64) -> String {
    match odds * 100.0 {
        none if none <= 0.0 => "never".to_owned(),
        few if few < 0.001 => "< 0.001 %".to_owned(),
        few if few < 1.0 => format!("{few:.3} %"),
        most if most > 99.9 => "> 99.9 %".to_owned(),
        some => format!("{some:.1} %"),
    }
}

fn table(head: &str, rows: impl Iterator<Item = (String, Vec<String>)>) -> String {
    let disks = DISKS.map(|(_, name)| name);
    let mut text = format!("| {head} | {} |\n|{}\n", disks.join(" | "), "---|".repeat(disks.len() + 1));
    for (name, cells) in rows {
        text.push_str(&format!("| {name} | {} |\n", cells.join(" | ")));
    }
    text
}

fn of_one_piece() -> String {
    let row = |piece: u64| {
        DISKS.map(|(size, _)| if piece < size { percent(overlooked(size, piece)) } else { "–".to_owned() })
    };
    table(
        "size of one piece of data, on a disk of",
        PIECES.iter().map(|(piece, name)| ((*name).to_owned(), row(*piece).into())),
    )
}

fn of_spread_data() -> String {
    let row = |one_of: u32| DISKS.map(|(size, _)| percent(overlooked_when_spread(size, one_of)));
    let name = |one_of: u32| format!("one page in {one_of}");
    table("pages used, on a disk of", SHARES.iter().map(|one_of| (name(*one_of), row(*one_of).into())))
}

fn what_is_read() -> String {
    let reads = |size| read(size).len().to_string();
    let mib = |size| format!("{} MiB", read(size).iter().map(|(from, to)| to - from).sum::<u64>() / MIB);
    let rows =
        [("number of reads", DISKS.map(|(size, _)| reads(size))), ("MiB in all", DISKS.map(|(size, _)| mib(size)))];
    table("reads on a disk of", rows.into_iter().map(|(name, cells)| (name.to_owned(), cells.into())))
}

#[test]
fn documentation_lists_the_computed_odds_of_missed_data() {
    doc_table::check("docs/never-formatted.md", &[("what is read", what_is_read()), ("odds", of_one_piece())]);
    doc_table::check("docs/dev/museum.md", &[("odds of spread data", of_spread_data())]);
}

/// Data that is shorter than a gap may lie between two places that the driver reads to prove a disk blank.
#[test]
fn data_longer_than_any_gap_is_never_overlooked() {
    for (size, _) in DISKS {
        let read = read(size);
        let largest = read.windows(2).map(|pair| pair[1].0 - pair[0].1).max().expect("two places");
        assert!(overlooked(size, largest) > 0.0 && overlooked(size, largest + PAGE) <= 0.0, "{size}");
        assert!(largest <= size / 512, "{size}: {largest}");
    }
    // The proof reads nearly all pages of a disk of this size, so it rarely overlooks even a single page.
    assert!(overlooked(40 * MIB, PAGE) < 0.2);
}
