//! The bytes of a disk with a volatile cache. Distinguishes flushed data from data that was only written.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;

use ebs_ec2::SplitMix64;

/// Size in bytes of the units that most disks keep or lose as a whole when the power fails.
const PAGE: usize = 4096;
const PAGE_BYTES: u64 = 4096;
/// Size in bytes of the units that every disk keeps or loses as a whole.
const SECTOR: usize = 512;

type Page = [u8; PAGE];

const ZEROS: Page = [0; PAGE];

#[derive(Debug, Default, Clone)]
struct Pages(HashMap<u64, Arc<Page>>);

#[derive(Debug)]
pub(super) struct Store {
    bytes: u64,
    has_power: bool,
    /// True while the disk is removed from its machine: it keeps its data, and every request fails.
    is_pulled: bool,
    now: Pages,
    flushed: Pages,
    /// Pages in which `now` and `flushed` may differ.
    unflushed: BTreeSet<u64>,
    flushes: u64,
    armed: Option<Armed>,
}

#[derive(Debug, Clone, Copy)]
enum Armed {
    After { changes: u64, seed: u64 },
    Struck(Cut),
}

/// What a power cut did to the unflushed pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cut {
    /// Number of pages that kept their last written contents.
    pub kept: u64,
    /// Number of pages that returned to their last flushed contents.
    pub lost: u64,
    /// Number of pages in which only some sectors kept their last written contents.
    pub torn: u64,
}

/// How a disk treats its cache at a power cut.
#[derive(Debug, Clone, Copy)]
enum Habit {
    LosesAll,
    KeepsAll,
    /// Keeps each page with a probability of n/256.
    Keeps(u64),
    /// Keeps or loses each sector separately.
    Tears,
}

impl Habit {
    fn any(rng: &mut SplitMix64) -> Self {
        match rng.below(8) {
            0 => Self::LosesAll,
            1 => Self::KeepsAll,
            2 => Self::Keeps(16),
            3 => Self::Keeps(240),
            4 | 5 => Self::Keeps(128),
            _ => Self::Tears,
        }
    }
}

impl Pages {
    fn read(&self, page: u64) -> Page {
        self.0.get(&page).map_or(ZEROS, |page| **page)
    }

    fn put(&mut self, page: u64, bytes: Option<Arc<Page>>) {
        match bytes {
            Some(bytes) => self.0.insert(page, bytes),
            None => self.0.remove(&page),
        };
    }
}

impl Store {
    pub(super) fn new(bytes: u64) -> Self {
        let (now, flushed) = (Pages::default(), Pages::default());
        let unflushed = BTreeSet::new();
        Self { bytes, has_power: true, is_pulled: false, now, flushed, unflushed, flushes: 0, armed: None }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of flushes, and the number of unflushed pages.
    pub(super) fn flushes(&self) -> (u64, u64) {
        (self.flushes, self.unflushed.len() as u64)
    }

    pub(super) fn resize(&mut self, bytes: u64) {
        // A disk never shrinks, like an EBS volume.
        self.bytes = self.bytes.max(bytes);
    }

    fn powered(&self) -> io::Result<()> {
        match (self.has_power, self.is_pulled) {
            (true, false) => Ok(()),
            (true, true) => Err(io::Error::other("pulled")),
            (false, _) => Err(io::Error::other("without power")),
        }
    }

    /// Reads up to `length` bytes; fewer at the end of the disk.
    pub(super) fn read(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        self.powered()?;
        let end = offset.saturating_add(length).min(self.bytes);
        let mut bytes = Vec::with_capacity(usize::try_from(end.saturating_sub(offset)).map_err(io::Error::other)?);
        let mut at = offset;
        while at < end {
            let (page, from, until) = piece(at, end)?;
            let there = self.now.0.get(&page).map_or(&ZEROS, |page| &**page);
            bytes.extend_from_slice(&there[from..until]);
            at += (until - from) as u64;
        }
        Ok(bytes)
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.count_down()?;
        self.change(offset, bytes.len() as u64, |at, piece| {
            let from = usize::try_from(at).map_err(io::Error::other)?;
            piece.copy_from_slice(&bytes[from..from + piece.len()]);
            Ok(())
        })
    }

    pub(super) fn zero(&mut self, offset: u64, length: u64) -> io::Result<()> {
        self.count_down()?;
        let end = self.end_of(offset, length)?;
        let (first, last) = (offset.div_ceil(PAGE_BYTES), end / PAGE_BYTES);
        let fill = |_: u64, piece: &mut [u8]| {
            piece.fill(0);
            Ok(())
        };
        if first >= last {
            return self.change(offset, length, fill);
        }
        self.change(offset, first * PAGE_BYTES - offset, fill)?;
        self.change(last * PAGE_BYTES, end - last * PAGE_BYTES, fill)?;
        // mkfs zeroes the whole disk, so visit only pages that exist.
        let whole: Vec<u64> = self.now.0.keys().copied().filter(|page| (first..last).contains(page)).collect();
        for page in whole {
            self.now.put(page, None);
            self.unflushed.insert(page);
        }
        Ok(())
    }

    fn end_of(&self, offset: u64, length: u64) -> io::Result<u64> {
        self.powered()?;
        let end = offset.checked_add(length).filter(|end| *end <= self.bytes);
        end.ok_or_else(|| io::Error::other("beyond the end of the disk"))
    }

    /// Changes a range page by page. `with` gets each piece's offset within the range, and its bytes.
    fn change(
        &mut self,
        offset: u64,
        length: u64,
        mut with: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let end = self.end_of(offset, length)?;
        let mut at = offset;
        while at < end {
            let (page, from, until) = piece(at, end)?;
            let mut bytes = self.now.read(page);
            with(at - offset, &mut bytes[from..until])?;
            let is_zero = bytes == ZEROS;
            if is_zero && !self.now.0.contains_key(&page) && !self.unflushed.contains(&page) {
                // Zeros over zeros make no difference at a power cut, so they do not count as a change.
                at += (until - from) as u64;
                continue;
            }
            self.now.put(page, (!is_zero).then(|| Arc::new(bytes)));
            self.unflushed.insert(page);
            at += (until - from) as u64;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.powered()?;
        self.flushes += 1;
        for page in std::mem::take(&mut self.unflushed) {
            self.flushed.put(page, self.now.0.get(&page).cloned());
        }
        Ok(())
    }

    /// Cuts the power. The seed selects which unflushed data is lost.
    pub(super) fn cut(&mut self, seed: u64) -> Cut {
        let mut rng = SplitMix64::new(seed);
        let habit = Habit::any(&mut rng);
        let mut cut = Cut::default();
        for page in std::mem::take(&mut self.unflushed) {
            let (written, flushed) = (self.now.0.get(&page).cloned(), self.flushed.0.get(&page).cloned());
            let keep = match habit {
                Habit::LosesAll => false,
                Habit::KeepsAll => true,
                Habit::Keeps(chance) => rng.below(256) < chance,
                Habit::Tears => {
                    cut.torn += 1;
                    let torn = self.torn(page, &mut rng);
                    self.flushed.put(page, torn.clone());
                    self.now.put(page, torn);
                    continue;
                }
            };
            if keep {
                cut.kept += 1;
                self.flushed.put(page, written);
            } else {
                cut.lost += 1;
                self.now.put(page, flushed);
            }
        }
        self.has_power = false;
        cut
    }

    fn torn(&self, page: u64, rng: &mut SplitMix64) -> Option<Arc<Page>> {
        let (written, mut bytes) = (self.now.read(page), self.flushed.read(page));
        for (old, new) in bytes.chunks_mut(SECTOR).zip(written.chunks(SECTOR)) {
            if rng.below(2) == 0 {
                old.copy_from_slice(new);
            }
        }
        (bytes != ZEROS).then(|| Arc::new(bytes))
    }

    pub(super) fn arm(&mut self, seed: u64, changes: u64) {
        self.armed = Some(Armed::After { changes, seed });
    }

    /// Cancels a pending power cut, or returns the cut if it has already happened.
    pub(super) fn disarm(&mut self) -> Option<Cut> {
        match self.armed.take() {
            Some(Armed::Struck(cut)) => Some(cut),
            _ => None,
        }
    }

    pub(super) fn has_power(&self) -> bool {
        self.has_power
    }

    fn count_down(&mut self) -> io::Result<()> {
        match &mut self.armed {
            Some(Armed::After { changes: 0, seed }) => {
                let seed = *seed;
                self.armed = Some(Armed::Struck(self.cut(seed)));
                self.powered()
            }
            Some(Armed::After { changes, .. }) => {
                *changes -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Restores the power, and cancels a pending power cut.
    pub(super) fn power_on(&mut self) {
        self.has_power = true;
        self.armed = None;
    }

    /// Removes the disk from its machine: it keeps all data that was written, and accepts no more.
    pub(super) fn pull(&mut self) -> io::Result<()> {
        self.flush()?;
        self.is_pulled = true;
        Ok(())
    }

    pub(super) fn plug(&mut self) {
        self.is_pulled = false;
    }

    /// Zeroes the disk, like `blkdiscard --zeroout`.
    pub(super) fn wipe(&mut self) {
        self.now = Pages::default();
        self.flushed = Pages::default();
        self.unflushed.clear();
    }
}

/// Returns the page that contains an offset, and the part of the page within a range up to `end`.
fn piece(at: u64, end: u64) -> io::Result<(u64, usize, usize)> {
    let (page, from) = (at / PAGE_BYTES, at % PAGE_BYTES);
    let until = (end - page * PAGE_BYTES).min(PAGE_BYTES);
    let index = |place: u64| usize::try_from(place).map_err(io::Error::other);
    Ok((page, index(from)?, index(until)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Store {
        let mut store = Store::new(1 << 20);
        for page in 0..64 {
            store.write(page * PAGE_BYTES, &[1; PAGE]).unwrap();
        }
        store.flush().unwrap();
        for page in 0..64 {
            store.write(page * PAGE_BYTES, &[2; PAGE]).unwrap();
        }
        store
    }

    #[test]
    fn power_cut_keeps_flushed_data_and_each_sector_whole() {
        let mut seen = BTreeSet::new();
        for seed in 0..64 {
            let mut store = written();
            let cut = store.cut(seed);
            assert_eq!(cut.kept + cut.lost + cut.torn, 64);
            assert!(store.read(0, 512).is_err(), "without power it answers nothing");
            store.power_on();
            let bytes = store.read(0, 64 * PAGE_BYTES).unwrap();
            for sector in bytes.chunks(SECTOR) {
                assert!(sector == [1; SECTOR] || sector == [2; SECTOR]);
                seen.insert(sector[0]);
            }
        }
        assert_eq!(seen.len(), 2);
        let (mut again, mut once) = (written(), written());
        assert_eq!(again.cut(5), once.cut(5), "a seed decides");
    }

    #[test]
    fn armed_disk_loses_power_in_the_middle_of_a_write() {
        let mut store = Store::new(1 << 20);
        store.arm(1, 2);
        store.write(0, &[1; 512]).unwrap();
        store.zero(0, 512).unwrap();
        assert!(store.has_power());
        store.write(0, &[1; 512]).unwrap_err();
        assert!(!store.has_power() && store.flush().is_err());
        assert!(store.disarm().is_some() && store.disarm().is_none());
        store.power_on();
        store.arm(1, 0);
        assert_eq!(store.disarm(), None);
        store.write(0, &[1; 512]).unwrap();
    }
}
