//! Parameters of StorageClasses, VolumeAttributesClasses and VolumeSnapshotClasses as typed values. A parser refuses a
//! map with an invalid entry or two spellings of one key. Keys are case-insensitive, but tag prefixes are not.

mod error;
mod formatting;
mod lock;
mod mutable;
mod snapshot;
mod volume;

use std::collections::{BTreeMap, HashMap};
use std::num::{IntErrorKind, NonZeroU32, ParseIntError};
use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use ebs_ec2::{IopsRequest, VolumeType, ZoneName};
use ebs_mounter::SizeWord;

use crate::go_template::Data;

pub use error::ParameterError;
pub use formatting::{block_size, check_format_options};
pub use mutable::MutableParameters;
pub use snapshot::SnapshotParameters;
pub use volume::VolumeParameters;

const TAG_PREFIX: &str = "tagSpecification";
const TAG_DELETION_PREFIX: &str = "tagDeletion";

struct Entry<'a> {
    key: &'a str,
    value: &'a str,
}

/// A tag of a class, with a literal key and a template as its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagTemplate {
    pub(crate) key: String,
    pub(crate) template: String,
}

/// A parameter map sorted by lower-case key, with the tags kept separately.
struct Sorted<'a> {
    entries: BTreeMap<String, Entry<'a>>,
    tags: Vec<TagTemplate>,
    deletions: Vec<String>,
}

impl<'a> Sorted<'a> {
    fn parse(map: &'a HashMap<String, String>) -> Result<Self, ParameterError> {
        let by_spelling: BTreeMap<&str, &str> = map.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let mut sorted = Self { entries: BTreeMap::new(), tags: Vec::new(), deletions: Vec::new() };
        for (key, value) in by_spelling {
            if key.starts_with(TAG_PREFIX) {
                sorted.tags.push(Entry { key, value }.tag()?);
            } else if key.starts_with(TAG_DELETION_PREFIX) {
                sorted.deletions.push(value.to_owned());
            } else if let Some(other) = sorted.entries.insert(key.to_lowercase(), Entry { key, value }) {
                return Err(ParameterError::Twice { first: other.key.to_owned(), second: key.to_owned() });
            }
        }
        Ok(sorted)
    }

    /// Refuses `tagDeletion*` in a class that cannot delete tags.
    fn without_deletions(self) -> Result<Self, ParameterError> {
        match self.deletions.first() {
            None => Ok(self),
            Some(_) => Err(ParameterError::Unknown { key: TAG_DELETION_PREFIX.to_owned() }),
        }
    }

    /// Sets all entries except tags, in alphabetical order.
    fn set_in<T>(&self, target: &mut T, keys: &[Key<T>]) -> Result<(), ParameterError> {
        for (lower, entry) in &self.entries {
            let unknown = || ParameterError::Unknown { key: entry.key.to_owned() };
            let key = keys.iter().find(|key| key.name.eq_ignore_ascii_case(lower)).ok_or_else(unknown)?;
            (key.set)(target, entry)?;
        }
        Ok(())
    }
}

/// Names of the volume's Kubernetes objects, which the provisioner adds. They are empty when unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimNames {
    pub pvc_name: String,
    pub pvc_namespace: String,
    pub pv_name: String,
}

impl ClaimNames {
    /// Returns the variables for tag templates. A variable whose value is unknown is empty.
    pub fn template_data(&self) -> Data {
        Data::new([
            ("PVCName", self.pvc_name.clone()),
            ("PVCNamespace", self.pvc_namespace.clone()),
            ("PVName", self.pv_name.clone()),
        ])
    }
}

const PVC_NAME_KEY: &str = "csi.storage.k8s.io/pvc/name";
const PVC_NAMESPACE_KEY: &str = "csi.storage.k8s.io/pvc/namespace";
const PV_NAME_KEY: &str = "csi.storage.k8s.io/pv/name";

/// Combines the two parameters that set IOPS.
pub fn iops_request(iops: Option<NonZeroU32>, per_gib: Option<NonZeroU32>) -> Result<IopsRequest, ParameterError> {
    match (iops, per_gib) {
        (Some(iops), Some(per_gib)) => Err(ParameterError::TwoIops { iops: iops.get(), per_gib: per_gib.get() }),
        (Some(iops), None) => Ok(IopsRequest::Explicit(iops)),
        (None, Some(per_gib)) => Ok(IopsRequest::PerGib(per_gib)),
        (None, None) => Ok(IopsRequest::Default),
    }
}

struct Key<T> {
    /// The key as the documentation spells it. The parser ignores case.
    name: &'static str,
    set: fn(&mut T, &Entry<'_>) -> Result<(), ParameterError>,
}

macro_rules! keys {
    ($class:ty; $($name:expr => |$target:pat_param, $entry:pat_param| $set:expr;)+) => {
        const KEYS: &[Key<$class>] = &[$(Key {
            name: $name,
            set: |$target, $entry| {
                $set;
                Ok(())
            },
        }),+];
    };
}
use keys;

impl Entry<'_> {
    /// Parses a boolean as Go does. Other values are errors, so that a typo never leaves data unencrypted.
    fn boolean(&self) -> Result<Option<bool>, ParameterError> {
        match self.value {
            "" => Ok(None),
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Some(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Some(false)),
            _ => Err(self.malformed("\"true\" or \"false\"")),
        }
    }

    fn flag(&self) -> Result<bool, ParameterError> {
        Ok(self.boolean()?.unwrap_or(false))
    }

    fn log_deprecated(&self) {
        tracing::info!(key = self.key, "ignoring deprecated parameter");
    }

    /// Parses a signed 32-bit number. Zero and negative numbers mean unset.
    fn positive(&self) -> Result<Option<NonZeroU32>, ParameterError> {
        let number: i32 = self.value.parse().map_err(|error: ParseIntError| {
            self.malformed(match error.kind() {
                IntErrorKind::PosOverflow => "a whole number of at most 2147483647",
                IntErrorKind::NegOverflow => "a whole number of at least -2147483648",
                _ => "a whole number such as 3000, or 0 for none",
            })
        })?;
        Ok(u32::try_from(number).ok().and_then(NonZeroU32::new))
    }

    /// Parses a required number in `range`. An empty value is an error, because other parameters depend on the number.
    fn within(&self, range: &RangeInclusive<u32>, wanted: &'static str) -> Result<u32, ParameterError> {
        let number = self.value.parse().ok().filter(|n| range.contains(n));
        number.ok_or_else(|| self.malformed(wanted))
    }

    /// Parses a number as mkfs accepts it, possibly with a unit. Empty means unset.
    fn size_word(&self) -> Result<Option<SizeWord>, ParameterError> {
        SizeWord::parse(self.value).map_err(|_| self.malformed("a word of the letters A-Z, a-z and digits"))
    }

    fn text(&self) -> Option<String> {
        (!self.value.is_empty()).then(|| self.value.to_owned())
    }

    /// Parses a volume type. Empty means unset. Accepts types that this version does not know, which EC2 checks.
    fn volume_type(&self) -> Option<VolumeType> {
        let text = self.text()?;
        Some(VolumeType::parse_known(&text).unwrap_or_else(|| {
            tracing::warn!(parameter = self.key, value = %text, "passing an unknown volume type to EC2 without checking size, IOPS and throughput");
            VolumeType::Other(text)
        }))
    }

    /// Parses zones, separated by commas. Ignores spaces.
    fn zones(&self) -> Result<Vec<ZoneName>, ParameterError> {
        let without_spaces = self.value.replace(' ', "");
        let zones = without_spaces.split(',').map(ZoneName::parse).collect::<Result<_, _>>();
        zones.map_err(|_| self.malformed("a list of zones such as us-west-2a,us-west-2b"))
    }

    fn tag(&self) -> Result<TagTemplate, ParameterError> {
        let (key, template) = self.value.split_once('=').ok_or_else(|| self.malformed("of the form key=value"))?;
        Ok(TagTemplate { key: key.to_owned(), template: template.to_owned() })
    }

    /// Checks the form of an ARN. EC2 checks the rest.
    fn arn(&self) -> Result<String, ParameterError> {
        if self.value.starts_with("arn:") && self.value.matches(':').count() >= 5 {
            return Ok(self.value.to_owned());
        }
        Err(self.malformed("an ARN, which begins with arn:"))
    }

    fn time(&self) -> Result<SystemTime, ParameterError> {
        rfc3339(self.value).ok_or_else(|| self.malformed("a time such as 2030-12-31T23:59:59Z"))
    }

    fn malformed(&self, wanted: &'static str) -> ParameterError {
        ParameterError::Malformed { key: self.key.to_owned(), value: self.value.to_owned(), wanted }
    }
}

/// Parses a time with an offset, which `humantime` cannot: it parses UTC only.
fn rfc3339(text: &str) -> Option<SystemTime> {
    if let Ok(time) = humantime::parse_rfc3339(text) {
        return Some(time);
    }
    let (local, offset) = text.split_at_checked(text.len().checked_sub(6)?)?;
    let utc = humantime::parse_rfc3339(&format!("{local}Z")).ok()?;
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let (hours, minutes): (u64, u64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let offset_by = Duration::from_secs(hours * 3600 + minutes * 60);
    match offset.as_bytes().first()? {
        _ if hours > 23 || minutes > 59 => None,
        b'+' => utc.checked_sub(offset_by),
        b'-' => utc.checked_add(offset_by),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
