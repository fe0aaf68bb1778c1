//! What the volumes of a cycle share: the nodes, the disks, the story so far, and what was counted.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;

use anyhow::Context;
use ebs_testkit::cut_disk::{Cut, CutDisks};
use ebs_types::VolumeId;

use crate::node::Node;
use crate::planted::Planted;

/// Why a volume may rightly need a hand, or be refused for good, after the last fault. There are no other reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exception {
    /// Data that the driver did not write lies on the disk: refused, and the data stays.
    HoldsData,
    /// The power went during the first mkfs: what it left is no file system, and a record counts for one run of the kernel
    /// only. A hand wipes the disk; nothing was ever in it.
    FormatCut,
    /// The first mkfs was broken off, and its record was forgotten by what came next: unstage, a raw publish, a growth of the
    /// disk, an error. A hand wipes the disk; nothing was ever in it.
    FormatForgotten,
    /// The offline growth of an ext file system was broken off: `e2fsck -p` wants a hand, which runs `e2fsck -fy`. The data is there.
    GrowthBrokenOff,
}

impl Exception {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::HoldsData, Self::FormatCut, Self::FormatForgotten, Self::GrowthBrokenOff];

    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HoldsData => "refused for data of others, which is unchanged",
            Self::FormatCut => "wiped by hand after a power cut during the first mkfs",
            Self::FormatForgotten => {
                "wiped by hand after a first mkfs that was interrupted, and whose record was forgotten"
            }
            Self::GrowthBrokenOff => "checked by hand after an offline growth that was interrupted",
        }
    }
}

/// How volumes ended that needed no exception.
pub const STAGED: &str = "staged by the driver alone";

/// What happened, in numbers.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    of: BTreeMap<&'static str, u64>,
}

impl Counts {
    pub(crate) fn add(&mut self, what: &'static str, count: u64) {
        *self.of.entry(what).or_default() += count;
    }

    /// Adds those of another cycle.
    pub fn join(&mut self, other: &Self) {
        for (what, count) in &other.of {
            self.add(what, *count);
        }
    }

    /// How the volumes ended after the last fault: each outcome that there is, and its number.
    pub fn outcomes(&self) -> Vec<(&'static str, u64)> {
        let all = std::iter::once(STAGED).chain(Exception::ALL.map(Exception::as_str));
        all.map(|outcome| (outcome, self.of(outcome))).collect()
    }

    /// The number of one kind.
    pub fn of(&self, what: &str) -> u64 {
        self.of.get(what).copied().unwrap_or(0)
    }
}

/// What happened on the way; [`Counts::outcomes`] tells how it ended.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcomes = Exception::ALL.map(Exception::as_str);
        for (what, count) in self.of.iter().filter(|(what, _)| **what != STAGED && !outcomes.contains(*what)) {
            writeln!(f, "  {count:>8} {what}")?;
        }
        Ok(())
    }
}

/// What is known of a disk beside its volume, so that a fault can strike it at any moment.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) id: VolumeId,
    /// The node that it is attached to.
    pub(crate) at: Cell<Option<usize>>,
    /// How often its power went.
    pub(crate) cuts: Cell<u64>,
    /// It has no power, although its node has.
    pub(crate) is_dead: Cell<bool>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) nodes: Vec<Node>,
    pub(crate) disks: RefCell<CutDisks>,
    pub(crate) places: Vec<Place>,
    pub(crate) planted: Option<Planted>,
    pub(crate) counts: RefCell<Counts>,
    /// The volume whose disk is to lose its power in the middle of a write.
    pub(crate) armed: Cell<Option<usize>>,
    /// What goes on that no power cut may strike.
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
            // A call that is repeated until it is done, and is answered the same each time.
            Some((last, times)) if *last == line => *times += 1,
            _ => trace.push((line, 1)),
        }
    }

    /// A rule does not hold. The first one counts.
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

    /// What happened, step by step.
    pub(crate) fn story(&self) -> String {
        let times = |(line, times): &(String, usize)| {
            if *times == 1 { line.clone() } else { format!("{line} ({times} times)") }
        };
        self.trace.borrow().iter().map(times).collect::<Vec<_>>().join("\n  ")
    }

    /// The power of one disk goes, unless it has gone in the middle of a write.
    pub(crate) fn cut(&self, volume: usize, seed: u64) -> anyhow::Result<()> {
        let place = &self.places[volume];
        let struck = if self.armed.get() == Some(volume) { self.disarm()? } else { None };
        place.cuts.set(place.cuts.get() + 1);
        let cut = match struck {
            Some(cut) => cut,
            None => self.disks.borrow_mut().cut(&place.id, seed).context("cut the power of a disk")?,
        };
        self.tell(format!("disk {volume} has lost its power: of what was not flushed {cut:?}"));
        let mut counts = self.counts.borrow_mut();
        counts.add("disks that lost their power", 1);
        counts.add("disks that lost data with it", u64::from(cut.lost + cut.torn > 0));
        Ok(())
    }

    /// Does something that no power cut strikes.
    pub(crate) async fn without_cuts<T>(&self, work: impl Future<Output = T>) -> T {
        self.uncut.set(self.uncut.get() + 1);
        let done = work.await;
        self.uncut.set(self.uncut.get() - 1);
        done
    }

    /// Whether the power may go just now.
    pub(crate) fn may_cut(&self) -> bool {
        self.uncut.get() == 0
    }

    /// Lets a disk lose its power with the change after so many others.
    pub(crate) fn arm(&self, volume: usize, seed: u64, changes: u64) -> anyhow::Result<()> {
        self.disks.borrow_mut().arm(&self.places[volume].id, seed, changes)?;
        self.armed.set(Some(volume));
        Ok(())
    }

    /// Takes that back; says what it did when it has come to pass.
    pub(crate) fn disarm(&self) -> anyhow::Result<Option<Cut>> {
        match self.armed.take() {
            Some(volume) => self.disks.borrow_mut().disarm(&self.places[volume].id),
            None => Ok(None),
        }
    }

    /// True when the disk that is to lose its power has lost it.
    pub(crate) fn has_struck(&self) -> bool {
        let Some(volume) = self.armed.get() else { return false };
        !self.disks.borrow_mut().has_power(&self.places[volume].id).unwrap_or(true)
    }
}
