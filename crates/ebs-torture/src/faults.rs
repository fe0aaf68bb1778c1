//! What happens to a node or a disk while volumes are worked on.

use std::time::Duration;

use ebs_types::SplitMix64;

use crate::node::Node;
use crate::planted::{Planted, records};
use crate::shared::Shared;

const LOOK: Duration = Duration::from_millis(1);

/// When a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    After(Duration),
    /// So long after the node's service has written down that it formats.
    InFormat(Duration),
    /// So long after the service has started a tool that changes a disk.
    InTool(Duration),
    /// In the middle of what is written to the volume's disk, with the change after so many others.
    InWrites(u64),
}

/// What strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blow {
    /// `kill -9` of the service; of the tools that it runs too, or they go on.
    Kill { with_tools: bool },
    /// `kill -9` of a tool alone.
    KillTool,
    /// The node loses its power, and its disks theirs.
    CutNode,
    /// A disk loses its power and its node does not.
    CutDisk,
}

/// A fault of one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The node that this volume is on then is struck, or its disk.
    pub(crate) volume: usize,
    pub(crate) moment: Moment,
    pub(crate) blow: Blow,
}

impl Fault {
    /// None in many rounds. Early in a cycle, when disks are formatted, that is struck more often than anything else.
    pub(crate) fn any(rng: &mut SplitMix64, volumes: u64, is_early: bool) -> Option<Self> {
        let blow = match rng.below(100) {
            0..30 => return None,
            30..62 => Blow::Kill { with_tools: rng.below(2) == 0 },
            62..75 => Blow::KillTool,
            75..92 => Blow::CutNode,
            _ => Blow::CutDisk,
        };
        let moment = match (blow, rng.below(4)) {
            (Blow::CutNode | Blow::CutDisk, 0..3) => {
                let most = 1 << rng.below(if is_early { 9 } else { 6 });
                Moment::InWrites(rng.below(most))
            }
            (Blow::Kill { .. }, 0..3) if is_early => Moment::InFormat(up_to(rng, 25)),
            (Blow::KillTool, _) => Moment::InTool(up_to(rng, 8)),
            (_, 0) => Moment::After(up_to(rng, 120)),
            (_, 1) => Moment::After(up_to(rng, 20)),
            (_, 2) => Moment::InTool(up_to(rng, 20)),
            _ => Moment::InFormat(up_to(rng, 25)),
        };
        Some(Self { volume: usize::try_from(rng.below(volumes)).unwrap_or(0), moment, blow })
    }

    /// The node that is struck: the volume may move in the meantime.
    fn node(self, shared: &Shared) -> usize {
        shared.places[self.volume].at.get().unwrap_or(0)
    }

    /// Waits for its moment, and strikes. Whoever no longer wants it drops the future: up to the blow it has done nothing.
    pub(crate) async fn strike(self, shared: &Shared, seed: u64) -> anyhow::Result<()> {
        let node = || &shared.nodes[self.node(shared)];
        match self.moment {
            Moment::After(after) => tokio::time::sleep(after).await,
            Moment::InFormat(after) => {
                while records(&node().state()).is_empty() {
                    tokio::time::sleep(LOOK).await;
                }
                tokio::time::sleep(after).await;
            }
            Moment::InTool(after) => {
                while !node().runs_a_tool() {
                    tokio::time::sleep(LOOK).await;
                }
                tokio::time::sleep(after).await;
            }
            // Without power nothing is written.
            Moment::InWrites(_) if shared.places[self.volume].is_dead.get() => std::future::pending().await,
            Moment::InWrites(changes) => {
                shared.arm(self.volume, seed, changes)?;
                while !shared.has_struck() {
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
        while !shared.may_cut() {
            tokio::time::sleep(LOOK).await;
        }
        self.blow(shared, seed)
    }

    /// At the end of a round: a disk that was to lose its power keeps it, unless it has lost it in the last moment.
    pub(crate) fn end(self, shared: &Shared, seed: u64) -> anyhow::Result<()> {
        if shared.has_struck() {
            self.blow(shared, seed)?;
        }
        // Between the two it may have happened all the same: the kernel writes when it likes.
        if shared.disarm()?.is_some() { self.blow(shared, seed) } else { Ok(()) }
    }

    fn blow(self, shared: &Shared, seed: u64) -> anyhow::Result<()> {
        let index = self.node(shared);
        let node = &shared.nodes[index];
        match self.blow {
            Blow::Kill { with_tools } => {
                let tools = node.kill(with_tools)?;
                let fate = if with_tools { "killed too" } else { "left running" };
                shared.tell(format!("kill -9 of the service of node {index}, {tools} tools {fate}"));
                shared.count("services killed");
                if with_tools {
                    lose_records(shared, node)?;
                }
            }
            Blow::KillTool => {
                if node.kill_a_tool() {
                    shared.tell(format!("kill -9 of a tool on node {index}"));
                    shared.count("tools killed under their service");
                    lose_records(shared, node)?;
                }
            }
            Blow::CutNode => {
                shared.tell(format!("node {index} loses its power"));
                shared.count("nodes that lost their power");
                for (volume, place) in shared.places.iter().enumerate() {
                    if place.at.get() == Some(index) && !place.is_dead.get() {
                        shared.cut(volume, seed.wrapping_add(volume as u64))?;
                    }
                }
                node.stop()?;
            }
            Blow::CutDisk => {
                let place = &shared.places[self.volume];
                // One that moves just now is struck when it is written to, which it is not.
                if !node.is_down.get() && !place.is_dead.get() {
                    place.is_dead.set(true);
                    shared.cut(self.volume, seed)?;
                }
            }
        }
        Ok(())
    }
}

/// Of a planted bug: no record was ever written to the disk.
fn lose_records(shared: &Shared, node: &Node) -> anyhow::Result<()> {
    if shared.planted != Some(Planted::RecordNotKept) {
        return Ok(());
    }
    for record in records(&node.state()) {
        let _gone = std::fs::remove_file(record);
        shared.tell("planted: the record of the format was never on the disk");
    }
    Ok(())
}

/// Less than so many milliseconds.
pub(crate) fn up_to(rng: &mut SplitMix64, millis: u64) -> Duration {
    Duration::from_micros(rng.below(millis * 1000))
}
