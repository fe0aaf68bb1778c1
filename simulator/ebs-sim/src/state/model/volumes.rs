//! The volumes by id, and which of them may change without a call.
//!
//! Most volumes of a large account are at rest. The simulator settles its state before every call, so it must not visit
//! them all: every mutable access marks a volume as active, and [`super::super::advance`] lets it rest again.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Iter, Keys, Values};
use std::ops::Index;

use serde::{Deserialize, Serialize};

use super::Volume;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::state) struct Volumes {
    all: BTreeMap<String, Volume>,
    /// The volumes that have been accessed since they last came to rest. `None` stands for all volumes, for a state that
    /// was just loaded.
    #[serde(skip)]
    active: Option<BTreeSet<String>>,
}

/// Whether a volume is active follows from the volume.
impl PartialEq for Volumes {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl<Q: Ord + ?Sized> Index<&Q> for Volumes
where
    String: Borrow<Q>,
{
    type Output = Volume;

    fn index(&self, id: &Q) -> &Volume {
        &self.all[id]
    }
}

impl Volumes {
    pub(in crate::state) fn get(&self, id: &str) -> Option<&Volume> {
        self.all.get(id)
    }

    pub(in crate::state) fn contains_key(&self, id: &str) -> bool {
        self.all.contains_key(id)
    }

    pub(in crate::state) fn len(&self) -> usize {
        self.all.len()
    }

    pub(in crate::state) fn keys(&self) -> Keys<'_, String, Volume> {
        self.all.keys()
    }

    pub(in crate::state) fn values(&self) -> Values<'_, String, Volume> {
        self.all.values()
    }

    pub(in crate::state) fn iter(&self) -> Iter<'_, String, Volume> {
        self.all.iter()
    }

    /// Returns a volume to change. It becomes active.
    pub(in crate::state) fn get_mut(&mut self, id: &str) -> Option<&mut Volume> {
        let volume = self.all.get_mut(id)?;
        if let Some(active) = &mut self.active
            && !active.contains(id)
        {
            active.insert(id.to_owned());
        }
        Some(volume)
    }

    pub(in crate::state) fn insert(&mut self, id: String, volume: Volume) {
        if let Some(active) = &mut self.active {
            active.insert(id.clone());
        }
        self.all.insert(id, volume);
    }

    pub(in crate::state) fn remove(&mut self, id: &str) -> Option<Volume> {
        if let Some(active) = &mut self.active {
            active.remove(id);
        }
        self.all.remove(id)
    }

    /// Returns all volumes to change. All become active.
    pub(in crate::state) fn values_mut(&mut self) -> impl Iterator<Item = &mut Volume> {
        self.active = None;
        self.all.values_mut()
    }

    /// Returns the map for a change that the caller undoes before the state is settled again. No volume becomes active.
    pub(in crate::state) fn as_map_mut(&mut self) -> &mut BTreeMap<String, Volume> {
        &mut self.all
    }

    /// Returns the active volumes in the order of their ids.
    pub(in crate::state) fn active(&self) -> Box<dyn Iterator<Item = &Volume> + '_> {
        match &self.active {
            None => Box::new(self.all.values()),
            Some(active) => Box::new(active.iter().filter_map(|id| self.all.get(id))),
        }
    }

    /// Calls `settle` with each active volume in the order of their ids. A volume for which it returns true is at rest.
    pub(in crate::state) fn settle_active(&mut self, mut settle: impl FnMut(&mut Volume) -> bool) {
        let mut active = self.active.take().unwrap_or_else(|| self.all.keys().cloned().collect());
        active.retain(|id| self.all.get_mut(id).is_some_and(|volume| !settle(volume)));
        self.active = Some(active);
    }
}
