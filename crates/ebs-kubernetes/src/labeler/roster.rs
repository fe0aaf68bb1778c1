//! The labeler's state: each node's instance, labels and next check, and the volume of each PersistentVolume.

use std::collections::{BTreeMap, HashSet};

use ebs_ec2::{DriverName, InstanceId, VolumeId};
use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::Times;
use super::count::{Described, Values};
use crate::node_metadata::{LabelKeys, described_instance};
use crate::object::{NodeObject, Slim, VolumeObject};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    uid: String,
    instance: InstanceId,
    /// The current labels for interfaces and volumes. `None` means that the label is missing.
    labels: [Option<String>; 2],
    due: Instant,
    failures: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) node: String,
    pub(super) instance: InstanceId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) node: String,
    /// The uid of the Node. Another Node with the same name may have replaced it.
    pub(super) uid: String,
    pub(super) values: Values,
}

#[derive(Debug)]
pub(super) struct Roster {
    driver: DriverName,
    keys: LabelKeys,
    times: Times,
    nodes: Objects<Entry>,
    volumes: Objects<VolumeId>,
}

/// The state that the labeler keeps of all objects of one kind, by the object's name.
#[derive(Debug)]
struct Objects<T> {
    current: BTreeMap<String, T>,
    /// The list that is being read. Until it is complete, the current entries remain valid.
    listing: BTreeMap<String, T>,
    is_known: bool,
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self { current: BTreeMap::new(), listing: BTreeMap::new(), is_known: false }
    }
}

impl<T> Objects<T> {
    /// Applies an event of a watch. `entry` is the part of the event's object that the labeler keeps.
    fn apply<K, S>(&mut self, event: &Event<Slim<K, S>>, entry: Option<T>) {
        match (event, entry) {
            (Event::Init, _) => self.listing.clear(),
            (Event::InitApply(_), None) => {}
            (Event::InitApply(object), Some(entry)) => drop(self.listing.insert(object.name().to_owned(), entry)),
            (Event::InitDone, _) => {
                self.current = std::mem::take(&mut self.listing);
                self.is_known = true;
            }
            (Event::Apply(object), Some(entry)) => drop(self.current.insert(object.name().to_owned(), entry)),
            (Event::Apply(object), None) | (Event::Delete(object), _) => drop(self.current.remove(object.name())),
        }
    }
}

fn object_of<K>(event: &Event<K>) -> Option<&K> {
    match event {
        Event::Init | Event::InitDone => None,
        Event::InitApply(object) | Event::Apply(object) | Event::Delete(object) => Some(object),
    }
}

impl Roster {
    pub(super) fn new(driver: DriverName, times: Times) -> Self {
        let keys = LabelKeys::of(&driver);
        Self { driver, keys, times, nodes: Objects::default(), volumes: Objects::default() }
    }

    pub(super) fn keys(&self) -> &LabelKeys {
        &self.keys
    }

    /// Returns true once both lists are complete. Before that, the labeler could count volumes of PersistentVolumes as
    /// other volumes.
    fn is_complete(&self) -> bool {
        self.nodes.is_known && self.volumes.is_known
    }

    /// Applies an event of the watch on Nodes.
    pub(super) fn apply_node(&mut self, event: &Event<NodeObject>) {
        let entry = object_of(event).and_then(|node| self.entry(node));
        self.nodes.apply(event, entry);
    }

    /// Applies an event of the watch on PersistentVolumes.
    pub(super) fn apply_volume(&mut self, event: &Event<VolumeObject>) {
        let volume = object_of(event).and_then(|volume| volume.ebs_volume(&self.driver));
        self.volumes.apply(event, volume);
    }

    /// Returns a node's current entry, or `None` if the labeler cannot describe its instance. A new node or instance is
    /// due at once, and a node whose labels another client changed is due soon.
    fn entry(&self, node: &NodeObject) -> Option<Entry> {
        let instance = described_instance(node)?;
        let uid = node.metadata.uid.clone().unwrap_or_default();
        let labels = [&self.keys.interfaces, &self.keys.volumes].map(|key| node.label(key).map(str::to_owned));
        let now = Instant::now();
        let known = self.nodes.current.get(node.name()).filter(|known| known.uid == uid && known.instance == instance);
        let (due, failures) = match known {
            None => (now, 0),
            Some(known) if known.labels == labels => (known.due, known.failures),
            Some(known) => (known.due.min(now + self.times.drift), known.failures),
        };
        Some(Entry { uid, instance, labels, due, failures })
    }

    /// Returns when the next node is due, or `None` if there are no nodes or a list is incomplete.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.nodes.current.values().map(|entry| entry.due).min().filter(|_| self.is_complete())
    }

    /// Returns the nodes that are due now or soon. Nodes that are due together share calls.
    pub(super) fn due(&self) -> Vec<Due> {
        let until = Instant::now() + self.times.gather;
        let due = self.nodes.current.iter().filter(|(_, entry)| entry.due <= until);
        due.map(|(node, entry)| Due { node: node.clone(), instance: entry.instance.clone() }).collect()
    }

    /// Returns the change that a node's labels need, or `None` if the labels are right or the node was replaced.
    pub(super) fn described(
        &mut self,
        due: &Due,
        described: &Described,
        persistent: &HashSet<VolumeId>,
    ) -> Option<Change> {
        let next = Instant::now() + self.times.refresh;
        let entry = self.nodes.current.get_mut(&due.node).filter(|entry| entry.instance == due.instance)?;
        let values = described.values(persistent);
        if entry.labels == values.labels() {
            (entry.due, entry.failures) = (next, 0);
            return None;
        }
        Some(Change { node: due.node.clone(), uid: entry.uid.clone(), values })
    }

    pub(super) fn labelled(&mut self, change: &Change) {
        let next = Instant::now() + self.times.refresh;
        if let Some(entry) = self.nodes.current.get_mut(&change.node).filter(|entry| entry.uid == change.uid) {
            entry.labels = change.values.labels();
            (entry.due, entry.failures) = (next, 0);
        }
    }

    /// Schedules a retry after a failure. Each pause is longer than the previous one.
    pub(super) fn failed(&mut self, node: &str) {
        let (first, longest) = (self.times.first_retry, self.times.refresh);
        if let Some(entry) = self.nodes.current.get_mut(node) {
            entry.due =
                Instant::now() + first.saturating_mul(2_u32.saturating_pow(entry.failures.min(20))).min(longest);
            entry.failures = entry.failures.saturating_add(1);
        }
    }

    pub(super) fn persistent(&self) -> HashSet<VolumeId> {
        self.volumes.current.values().cloned().collect()
    }

    pub(super) fn size(&self) -> (usize, usize) {
        (self.nodes.current.len(), self.volumes.current.len())
    }
}

#[cfg(test)]
#[path = "roster_tests.rs"]
mod tests;
