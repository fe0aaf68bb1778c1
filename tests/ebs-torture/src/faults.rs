//! Faults of a node or a disk while volumes are in use.

use std::time::Duration;

use ebs_ec2::SplitMix64;

use crate::node::Node;
use crate::planted::{Planted, records};
use crate::shared::Shared;

pub(crate) const LOST_RECORDS: &str = "format records lost by the planted bug";
const LOOK: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    After(Duration),
    /// This long after the node's service has written the record of a format.
    InFormat(Duration),
    /// This long after the service has started a tool that changes a disk.
    InTool(Duration),
    /// In the middle of a write to the volume's disk, after this number of changes.
    InWrites(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blow {
    /// `kill -9` of the service. Its tools are killed too with `with_tools`; otherwise they continue.
    Kill {
        with_tools: bool,
    },
    /// `kill -9` of a tool; its service continues.
    KillTool,
    CutNode,
    /// A disk loses power, but its node does not.
    CutDisk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The volume whose node or disk the fault affects.
    pub(crate) volume: usize,
    pub(crate) moment: Moment,
    pub(crate) blow: Blow,
}

impl Fault {
    /// Draws a fault. In many rounds, returns `None`. Early in a cycle, most faults interrupt a format.
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

    /// Draws a fault in the middle of a format, for the planted bug that only such a fault reveals.
    pub(crate) fn in_format(rng: &mut SplitMix64, volumes: u64) -> Self {
        let (moment, blow) = (Moment::InTool(up_to(rng, 10)), Blow::Kill { with_tools: true });
        Self { volume: usize::try_from(rng.below(volumes)).unwrap_or(0), moment, blow }
    }

    /// Returns the affected node, which may change until the fault happens, because the volume may move.
    fn node(self, shared: &Shared) -> usize {
        shared.places[self.volume].at.get().unwrap_or(0)
    }

    /// Waits for the moment and then causes the fault. Dropping the future before that moment cancels the fault.
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
            // Without power there are no writes, so the moment never comes.
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

    /// Ends a round: cancels a pending power cut, or completes the fault if the cut has already happened.
    pub(crate) fn end(self, shared: &Shared, seed: u64) -> anyhow::Result<()> {
        if shared.has_struck() {
            self.blow(shared, seed)?;
        }
        // The armed power cut may have struck since the check: any write of the kernel can trigger it.
        if shared.disarm()?.is_some() { self.blow(shared, seed) } else { Ok(()) }
    }

    fn blow(self, shared: &Shared, seed: u64) -> anyhow::Result<()> {
        let index = self.node(shared);
        let node = &shared.nodes[index];
        match self.blow {
            Blow::Kill { with_tools } => {
                let tools = node.kill(with_tools)?;
                let fate = if with_tools { "killed as well" } else { "left running" };
                shared.tell(format!("kill -9 of the service of node {index}, {tools} tools {fate}"));
                shared.count("services killed");
                if with_tools {
                    lose_records(shared, node);
                }
            }
            Blow::KillTool => {
                if node.kill_a_tool() {
                    shared.tell(format!("kill -9 of a tool on node {index}"));
                    shared.count("tools killed while their service kept running");
                    lose_records(shared, node);
                }
            }
            Blow::CutNode => {
                shared.tell(format!("node {index} loses its power"));
                shared.count("nodes that lost power");
                for (volume, place) in shared.places.iter().enumerate() {
                    if place.at.get() == Some(index) && !place.is_dead.get() {
                        shared.cut(volume, seed.wrapping_add(volume as u64))?;
                    }
                }
                node.stop()?;
            }
            Blow::CutDisk => {
                let place = &shared.places[self.volume];
                // Only a disk that has power can lose it.
                if !node.is_down.get() && !place.is_dead.get() {
                    place.is_dead.set(true);
                    shared.cut(self.volume, seed)?;
                }
            }
        }
        Ok(())
    }
}

/// Planted bug: loses all records of formats, as if they had never been written to the disk.
fn lose_records(shared: &Shared, node: &Node) {
    if shared.planted == Some(Planted::RecordNotKept) {
        for record in records(&node.state()) {
            let _gone = std::fs::remove_file(record);
            shared.tell("planted: the record of a format was never written to the disk");
            shared.count(LOST_RECORDS);
        }
    }
}

pub(crate) fn up_to(rng: &mut SplitMix64, millis: u64) -> Duration {
    Duration::from_micros(rng.below(millis * 1000))
}
