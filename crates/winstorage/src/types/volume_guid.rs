//! Names of volumes.

use std::fmt;

use crate::StorageError;

/// A volume by its GUID, `\\?\Volume{8-4-4-4-12}\`: always printed with the final backslash, which Win32 wants.
///
/// Equality does not heed the case of the digits; they are kept as they came, for Windows compares its texts.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VolumeGuid(String);

const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

impl VolumeGuid {
    /// Takes `\\?\Volume{GUID}\`, also without the last backslash, with `\\.\` or `\??\` (the kernel's form) before it.
    ///
    /// # Errors
    /// [`StorageError::VolumeId`] for everything else, before any host call.
    pub fn parse(text: &str) -> Result<Self, StorageError> {
        let refuse = || StorageError::VolumeId { id: text.to_owned() };
        let rest =
            [r"\\?\", r"\\.\", r"\??\"].iter().find_map(|prefix| text.strip_prefix(prefix)).ok_or_else(refuse)?;
        let name = rest.strip_suffix('\\').unwrap_or(rest);
        let head = name.get(..7).ok_or_else(refuse)?;
        let guid = name[7..].strip_suffix('}').ok_or_else(refuse)?;
        let groups: Vec<&str> = guid.split('-').collect();
        let is_guid = groups.len() == GROUPS.len()
            && groups
                .iter()
                .zip(GROUPS)
                .all(|(group, digits)| group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if !head.eq_ignore_ascii_case("Volume{") || !is_guid {
            return Err(refuse());
        }
        Ok(Self(guid.to_owned()))
    }

    /// The GUID without braces.
    #[must_use]
    pub fn guid(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VolumeGuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r"\\?\Volume{{{}}}\", self.0)
    }
}

impl PartialEq for VolumeGuid {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for VolumeGuid {}

impl TryFrom<String> for VolumeGuid {
    type Error = StorageError;

    fn try_from(text: String) -> Result<Self, StorageError> {
        Self::parse(&text)
    }
}

impl From<VolumeGuid> for String {
    fn from(volume: VolumeGuid) -> Self {
        volume.to_string()
    }
}
