//! Identifies disks: the location of a disk in the machine, and the disk of an EBS volume.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::types::{DiskIds, DiskLocation, DiskNumber};

/// Parses `MSFT_Disk.Location`, for example `PCI Slot 3 : Adapter 0 : Port 0 : Target 1 : LUN 0`. Returns `None` for
/// any other text.
pub fn location(text: &str) -> Option<DiskLocation> {
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() < 5 {
        return None;
    }
    let mut location = DiskLocation::default();
    let mut is_place = false;
    for part in parts {
        let words: Vec<&str> = part.trim().split(' ').collect();
        let [name, value] = words[..] else { continue };
        is_place = true;
        match name {
            "Adapter" => value.clone_into(&mut location.adapter),
            "Bus" => value.clone_into(&mut location.bus),
            "Target" => value.clone_into(&mut location.target),
            "LUN" => value.clone_into(&mut location.lun),
            _ => {}
        }
    }
    is_place.then_some(location)
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    #[error(
        "Failed to find device path {device}. disk number for device path {device:?} volume id {volume:?} not found"
    )]
    NotFound { device: String, volume: String },
    #[error("disks {first} and {second} both identify themselves as volume {volume}")]
    Ambiguous { volume: String, first: DiskNumber, second: DiskNumber },
}

/// A search for the disk of an EBS volume. It makes no calls. The caller, in this process or behind a proxy, passes the
/// disks to [`Self::look`] and acts on the result.
#[derive(Debug, Clone)]
pub struct DiskSearch {
    volume: String,
    device: String,
    looks: u32,
    waited: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Found(DiskNumber),
    /// The attachment may not be visible yet. Rescan, wait this long, and check again.
    RescanAndWait(Duration),
}

/// What identifies a disk, strongest proof first.
#[derive(Debug, Clone, Copy)]
enum Proof {
    Serial,
    Page83,
    /// The location of the disk, on instances without Nitro.
    Place,
}

const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// How long a search may take. A volume that EC2 reports as attached is usually visible within a second or two.
const PATIENCE: Duration = Duration::from_secs(5);

impl DiskSearch {
    /// Creates a search for the volume `volume` (`vol-…`), which EC2 has attached as `device`.
    pub fn new(volume: &str, device: &str) -> Self {
        Self { volume: volume.to_owned(), device: device.to_owned(), looks: 0, waited: Duration::ZERO }
    }

    pub fn look(
        &mut self,
        ids: &BTreeMap<DiskNumber, DiskIds>,
        locations: &BTreeMap<DiskNumber, DiskLocation>,
    ) -> Result<Look, SearchError> {
        for proof in [Proof::Serial, Proof::Page83, Proof::Place] {
            let is_it = |disk: &DiskNumber, ids: &DiskIds| self.proves(proof, ids, locations.get(disk));
            let mut found = ids.iter().filter(|(disk, ids)| is_it(disk, ids)).map(|(disk, _)| *disk);
            match (found.next(), found.next()) {
                (Some(disk), None) => return Ok(Look::Found(disk)),
                (Some(first), Some(second)) => {
                    return Err(SearchError::Ambiguous { volume: self.volume.clone(), first, second });
                }
                _ => {}
            }
        }
        self.again()
    }

    fn proves(&self, proof: Proof, ids: &DiskIds, place: Option<&DiskLocation>) -> bool {
        match proof {
            Proof::Serial => is_volume(&ids.serial_number, &self.volume),
            Proof::Page83 => is_volume(&page83_text(&ids.page83), &self.volume),
            // A disk whose serial number names an EBS volume can only be that volume, whatever its location.
            Proof::Place => {
                let is_there =
                    |(place, target): (&DiskLocation, u32)| place.target == target.to_string() && is_first(place);
                !names_a_volume(&ids.serial_number) && place.zip(xen_target(&self.device)).is_some_and(is_there)
            }
        }
    }

    fn again(&mut self) -> Result<Look, SearchError> {
        if self.waited >= PATIENCE {
            return Err(SearchError::NotFound { device: self.device.clone(), volume: self.volume.clone() });
        }
        let wait = (FIRST_WAIT * 2_u32.saturating_pow(self.looks)).min(LONGEST_WAIT);
        self.looks += 1;
        self.waited += wait;
        Ok(Look::RescanAndWait(wait))
    }
}

/// Returns whether a serial number belongs to `volume`. A serial number has the form `vol0123456789abcdef0_00000001.`,
/// sometimes with spaces around it.
fn is_volume(serial: &str, volume: &str) -> bool {
    let plain: String = serial.chars().filter(|char| !char.is_whitespace()).collect();
    let name = plain.split('_').next().unwrap_or_default();
    let wanted = volume.replacen('-', "", 1);
    !wanted.is_empty() && name.eq_ignore_ascii_case(&wanted)
}

pub fn names_an_ebs_volume(ids: &DiskIds) -> bool {
    names_a_volume(&ids.serial_number) || names_a_volume(&page83_text(&ids.page83))
}

fn names_a_volume(serial: &str) -> bool {
    let plain = serial.trim_start();
    plain.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("vol"))
}

/// Decodes page 83 to text. It is hexadecimal if the disk reports binary data, and otherwise already text.
fn page83_text(page83: &str) -> String {
    let bytes = hex::decode(page83).ok();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| page83.to_owned())
}

/// Returns the SCSI target of a Xen disk, which the letter in its device name determines: `/dev/sda1` 0, `xvdb` 1, …
/// `xvdz` 25.
fn xen_target(device: &str) -> Option<u32> {
    let name = device.strip_prefix("/dev/").unwrap_or(device);
    let letters = name
        .strip_prefix("xvd")
        .or_else(|| name.strip_prefix("sd"))?
        .trim_end_matches(|char: char| char.is_ascii_digit());
    let mut bytes = letters.bytes().map(|byte| byte.is_ascii_lowercase().then(|| u32::from(byte - b'a')));
    match (bytes.next(), bytes.next(), bytes.next()) {
        (Some(Some(one)), None, _) => Some(one),
        (Some(Some(first)), Some(Some(second)), None) => Some((first + 1) * 26 + second),
        _ => None,
    }
}

fn is_first(place: &DiskLocation) -> bool {
    matches!(place.lun.as_str(), "" | "0") && matches!(place.bus.as_str(), "" | "0")
}

#[cfg(test)]
mod tests;
