//! Names of volumes.

use std::fmt;

/// A volume, identified by its GUID: `\\?\Volume{8-4-4-4-12}\`. It is always printed with the final backslash, which
/// Win32 requires.
///
/// Equality ignores the case of the digits. The type keeps their case, because Windows compares the texts.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VolumeGuid(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(r"invalid volume id {0:?}; use \\?\Volume{{GUID}}\")]
pub struct VolumeIdError(pub String);

const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

impl VolumeGuid {
    /// Parses `\\?\Volume{GUID}\`. The final backslash may be missing, and the prefix may be `\\.\` or `\??\` (the
    /// kernel's form). Errors: any other text is rejected.
    pub fn parse(text: &str) -> Result<Self, VolumeIdError> {
        let refuse = || VolumeIdError(text.to_owned());
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
    type Error = VolumeIdError;

    fn try_from(text: String) -> Result<Self, VolumeIdError> {
        Self::parse(&text)
    }
}

impl From<VolumeGuid> for String {
    fn from(volume: VolumeGuid) -> Self {
        volume.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANONICAL: &str = r"\\?\Volume{0123abcd-0000-4000-8000-00000000beef}\";

    #[test]
    fn volume_id_is_printed_in_one_form() {
        for text in [
            CANONICAL,
            r"\\?\Volume{0123abcd-0000-4000-8000-00000000beef}",
            r"\\.\Volume{0123abcd-0000-4000-8000-00000000beef}\",
            r"\??\Volume{0123abcd-0000-4000-8000-00000000beef}\",
        ] {
            assert_eq!(VolumeGuid::parse(text).unwrap().to_string(), CANONICAL);
        }
        assert_eq!(VolumeGuid::parse(&CANONICAL.to_uppercase()).unwrap(), VolumeGuid::parse(CANONICAL).unwrap());
        for text in [
            "",
            r"C:\",
            "{0123abcd-0000-4000-8000-00000000beef}",
            r"\\?\Volume{0123abcd-0000-4000-8000-00000000beef}\\",
            r"\\?\Volume{0123abcd-0000-4000-8000-00000000beef}\x",
            r"\\?\Volume{0123abcd00004000800000000000beef}\",
            r"\\?\Volume{0123abcd-0000-4000-8000-00000000bee'}\",
            r"\\?\Volume{0123abcd-0000-4000-8000-00000000beefa}\",
            r"\\?\Volume{' OR 1=1}\",
            "\\\\?\\Volum\u{e9}",
        ] {
            assert!(VolumeGuid::parse(text).is_err(), "{text}");
        }
    }
}
