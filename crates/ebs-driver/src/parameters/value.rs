//! Single values.

use ebs_types::VolumeType;

use super::{Entry, ParameterError};

impl Entry<'_> {
    /// A truth value in any spelling that Go takes; empty is unset. Garbage is refused: with `encrypted`, a guess
    /// would be a leak (`controller.md` C22).
    pub(super) fn boolean(&self) -> Result<Option<bool>, ParameterError> {
        match self.value {
            "" => Ok(None),
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Some(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Some(false)),
            _ => Err(ParameterError::Boolean { key: self.key.to_owned(), value: self.value.to_owned() }),
        }
    }

    /// A signed 32-bit number; zero and below mean unset.
    pub(super) fn positive(&self) -> Result<Option<u32>, ParameterError> {
        let number: i32 = self
            .value
            .parse()
            .map_err(|_| ParameterError::Integer { key: self.key.to_owned(), value: self.value.to_owned() })?;
        Ok(u32::try_from(number).ok().filter(|n| *n > 0))
    }

    /// Letters and digits; empty is unset.
    pub(super) fn alphanumeric(&self) -> Result<Option<String>, ParameterError> {
        if !self.value.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(ParameterError::Alphanumeric { key: self.key.to_owned(), value: self.value.to_owned() });
        }
        Ok(self.text())
    }

    /// Any text; empty is unset.
    pub(super) fn text(&self) -> Option<String> {
        (!self.value.is_empty()).then(|| self.value.to_owned())
    }

    /// A known volume type; empty is unset.
    pub(super) fn volume_type(&self) -> Result<Option<VolumeType>, ParameterError> {
        if self.value.is_empty() {
            return Ok(None);
        }
        let unknown = || ParameterError::VolumeType { key: self.key.to_owned(), value: self.value.to_owned() };
        VolumeType::parse_known(self.value).map(Some).ok_or_else(unknown)
    }

    pub(super) fn unknown(&self) -> ParameterError {
        ParameterError::Unknown { key: self.key.to_owned() }
    }

    pub(super) fn not_yet(&self, feature: &'static str) -> ParameterError {
        ParameterError::NotYet { key: self.key.to_owned(), feature }
    }
}
