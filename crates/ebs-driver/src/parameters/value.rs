use std::num::{IntErrorKind, NonZeroU32, ParseIntError};
use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use ebs_ec2::{VolumeType, ZoneName};
use ebs_mounter::SizeWord;

use super::{Entry, ParameterError, TagTemplate};

impl Entry<'_> {
    /// Parses a boolean as Go does. Other values are errors, so that a typo never leaves data unencrypted.
    pub(super) fn boolean(&self) -> Result<Option<bool>, ParameterError> {
        match self.value {
            "" => Ok(None),
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Some(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Some(false)),
            _ => Err(self.malformed("\"true\" or \"false\"")),
        }
    }

    pub(super) fn flag(&self) -> Result<bool, ParameterError> {
        Ok(self.boolean()?.unwrap_or(false))
    }

    pub(super) fn log_deprecated(&self) {
        tracing::info!(key = self.key, "ignoring deprecated parameter");
    }

    /// Parses a signed 32-bit number. Zero and negative numbers mean unset.
    pub(super) fn positive(&self) -> Result<Option<NonZeroU32>, ParameterError> {
        let number: i32 = self.value.parse().map_err(|error: ParseIntError| {
            self.malformed(match error.kind() {
                IntErrorKind::PosOverflow => "a whole number of at most 2147483647",
                IntErrorKind::NegOverflow => "a whole number of at least -2147483648",
                _ => "a whole number such as 3000, or 0 for none",
            })
        })?;
        Ok(u32::try_from(number).ok().and_then(NonZeroU32::new))
    }

    /// Parses a required number in `range`. Empty is an error, because the meaning of other parameters depends on it.
    pub(super) fn within(&self, range: &RangeInclusive<u32>, wanted: &'static str) -> Result<u32, ParameterError> {
        let number = self.value.parse().ok().filter(|n| range.contains(n));
        number.ok_or_else(|| self.malformed(wanted))
    }

    /// Parses a number as mkfs accepts it, possibly with a unit. Empty means unset.
    pub(super) fn size_word(&self) -> Result<Option<SizeWord>, ParameterError> {
        SizeWord::parse(self.value).map_err(|_| self.malformed("made of the letters A-Z, a-z and digits"))
    }

    pub(super) fn text(&self) -> Option<String> {
        (!self.value.is_empty()).then(|| self.value.to_owned())
    }

    /// Parses a volume type. Empty means unset. Accepts types that this version does not know, which EC2 checks.
    pub(super) fn volume_type(&self) -> Option<VolumeType> {
        let text = self.text()?;
        Some(VolumeType::parse_known(&text).unwrap_or_else(|| {
            tracing::warn!(parameter = self.key, value = %text, "passing an unknown volume type to EC2 without checking size, IOPS and throughput");
            VolumeType::Other(text)
        }))
    }

    /// Parses zones, separated by commas. Ignores spaces.
    pub(super) fn zones(&self) -> Result<Vec<ZoneName>, ParameterError> {
        let without_spaces = self.value.replace(' ', "");
        let zones = without_spaces.split(',').map(ZoneName::parse).collect::<Result<_, _>>();
        zones.map_err(|_| self.malformed("a list of zones such as us-west-2a,us-west-2b"))
    }

    pub(super) fn tag(&self) -> Result<TagTemplate, ParameterError> {
        let (key, template) = self.value.split_once('=').ok_or_else(|| self.malformed("of the form key=value"))?;
        Ok(TagTemplate { key: key.to_owned(), template: template.to_owned() })
    }

    /// Checks the form of an ARN. EC2 checks the rest.
    pub(super) fn arn(&self) -> Result<String, ParameterError> {
        if self.value.starts_with("arn:") && self.value.matches(':').count() >= 5 {
            return Ok(self.value.to_owned());
        }
        Err(self.malformed("an ARN, which begins with arn:"))
    }

    pub(super) fn time(&self) -> Result<SystemTime, ParameterError> {
        rfc3339(self.value).ok_or_else(|| self.malformed("a time such as 2030-12-31T23:59:59Z"))
    }

    pub(super) fn malformed(&self, wanted: &'static str) -> ParameterError {
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
