//! State that all volumes of a cycle share: the nodes, the disks, the trace and the counters.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;

use anyhow::Context;
use ebs_ec2::VolumeId;

use crate::cut_disk::{Cut, CutDisks};
use crate::node::Node;
use crate::planted::Planted;

/// All reasons for which a volume may need a manual repair after the last fault, or be rejected for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exception {
    /// The disk has data that the driver did not write. The driver rejects the disk and keeps the data.
    HoldsData,
    /// A power cut interrupted the first mkfs. The disk has no file system, and the record is valid for one boot only.
    /// An administrator wipes the disk, which never had data.
    FormatCut,
    /// The first mkfs was interrupted, and a later event removed the format record: NodeUnstageVolume, a raw publish,
    /// an enlarged disk, or an error. An administrator wipes the disk, which never had data.
    FormatForgotten,
    /// An offline growth of ext was interrupted. The data is intact. An administrator repairs it with `e2fsck -fy`.
    GrowthBrokenOff,
}

impl Exception {
    pub const ALL: [Self; 4] = [Self::HoldsData, Self::FormatCut, Self::FormatForgotten, Self::GrowthBrokenOff];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::HoldsData => "rejected because of foreign data, which is unchanged",
            Self::FormatCut => "wiped manually after a power cut during the first mkfs",
            Self::FormatForgotten => "wiped manually after an interrupted first mkfs whose record was lost",
            Self::GrowthBrokenOff => "repaired manually after an interrupted offline growth",
        }
    }
}

/// The outcome of a volume without an exception.
pub const STAGED: &str = "staged by the driver without manual repair";

#[derive(Debug, Clone, Default)]
pub struct Counts {
    of: BTreeMap<&'static str, u64>,
}

impl Counts {
    pub(crate) fn add(&mut self, what: &'static str, count: u64) {
        *self.of.entry(what).or_default() += count;
    }

    /// Adds the counters of another cycle.
    pub fn join(&mut self, other: &Self) {
        for (what, count) in &other.of {
            self.add(what, *count);
        }
    }

    /// Returns the outcomes of the volumes after the last fault, and how often each occurred.
    pub fn outcomes(&self) -> Vec<(&'static str, u64)> {
        let all = std::iter::once(STAGED).chain(Exception::ALL.map(Exception::as_str));
        all.map(|outcome| (outcome, self.of(outcome))).collect()
    }

    pub fn of(&self, what: &str) -> u64 {
        self.of.get(what).copied().unwrap_or(0)
    }
}

/// Formats the events. [`Counts::outcomes`] returns the outcomes.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcomes = Exception::ALL.map(Exception::as_str);
        for (what, count) in self.of.iter().filter(|(what, _)| **what != STAGED && !outcomes.contains(*what)) {
            writeln!(f, "  {count:>8} {what}")?;
        }
        Ok(())
    }
}

/// The part of a disk's state that is kept outside of its `Volume`, so that a fault can access it at any moment.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) id: VolumeId,
    pub(crate) at: Cell<Option<usize>>,
    pub(crate) cuts: Cell<u64>,
    /// True if the disk has no power although its node does.
    pub(crate) is_dead: Cell<bool>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) nodes: Vec<Node>,
    pub(crate) disks: RefCell<CutDisks>,
    pub(crate) places: Vec<Place>,
    pub(crate) planted: Option<Planted>,
    pub(crate) counts: RefCell<Counts>,
    /// The volume whose disk will lose power in the middle of a write.
    pub(crate) armed: Cell<Option<usize>>,
    /// Number of operations in progress that no power cut may interrupt.
    uncut: Cell<u32>,
    trace: RefCell<Vec<(String, usize)>>,
    broken: RefCell<Option<String>>,
}

impl Shared {
    pub(crate) fn new(nodes: Vec<Node>, disks: CutDisks, places: Vec<Place>, planted: Option<Planted>) -> Self {
        let disks = RefCell::new(disks);
        let (counts, trace, broken) = (RefCell::default(), RefCell::default(), RefCell::default());
        let (armed, uncut) = (Cell::new(None), Cell::new(0));
        Self { nodes, disks, places, planted, counts, armed, uncut, trace, broken }
    }

    pub(crate) fn tell(&self, line: impl Into<String>) {
        let line = line.into();
        let mut trace = self.trace.borrow_mut();
        match trace.last_mut() {
            // The same call with the same result again: only count it.
            Some((last, times)) if *last == line => *times += 1,
            _ => trace.push((line, 1)),
        }
    }

    /// Records a violated rule. Only the first one counts.
    pub(crate) fn broken(&self, rule: impl Into<String>) {
        let rule = rule.into();
        self.tell(format!("BROKEN: {rule}"));
        self.broken.borrow_mut().get_or_insert(rule);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.borrow().is_some()
    }

    pub(crate) fn take_broken(&self) -> Option<String> {
        self.broken.take()
    }

    pub(crate) fn count(&self, what: &'static str) {
        self.counts.borrow_mut().add(what, 1);
    }

    pub(crate) fn story(&self) -> String {
        let times = |(line, times): &(String, usize)| {
            if *times == 1 { line.clone() } else { format!("{line} ({times} times)") }
        };
        self.trace.borrow().iter().map(times).collect::<Vec<_>>().join("\n  ")
    }

    /// Cuts the power of one disk, unless that has already happened in the middle of a write.
    pub(crate) fn cut(&self, volume: usize, seed: u64) -> anyhow::Result<()> {
        let place = &self.places[volume];
        let struck = if self.armed.get() == Some(volume) { self.disarm()? } else { None };
        place.cuts.set(place.cuts.get() + 1);
        let cut = match struck {
            Some(cut) => cut,
            None => self.disks.borrow_mut().cut(&place.id, seed).context("cut the power of a disk")?,
        };
        self.tell(format!("disk {volume} lost power; its unflushed writes: {cut:?}"));
        let mut counts = self.counts.borrow_mut();
        counts.add("disks that lost power", 1);
        counts.add("disks that lost unflushed data", u64::from(cut.lost + cut.torn > 0));
        Ok(())
    }

    /// Runs an operation that no power cut may interrupt.
    pub(crate) async fn without_cuts<T>(&self, work: impl Future<Output = T>) -> T {
        self.uncut.set(self.uncut.get() + 1);
        let done = work.await;
        self.uncut.set(self.uncut.get() - 1);
        done
    }

    pub(crate) fn may_cut(&self) -> bool {
        self.uncut.get() == 0
    }

    pub(crate) fn arm(&self, volume: usize, seed: u64, changes: u64) -> anyhow::Result<()> {
        self.disks.borrow_mut().arm(&self.places[volume].id, seed, changes)?;
        self.armed.set(Some(volume));
        Ok(())
    }

    /// Cancels [`Self::arm`]. Returns the cut if it has already happened.
    pub(crate) fn disarm(&self) -> anyhow::Result<Option<Cut>> {
        match self.armed.take() {
            Some(volume) => self.disks.borrow_mut().disarm(&self.places[volume].id),
            None => Ok(None),
        }
    }

    pub(crate) fn has_struck(&self) -> bool {
        let Some(volume) = self.armed.get() else { return false };
        !self.disks.borrow_mut().has_power(&self.places[volume].id).unwrap_or(true)
    }
}
