//! The mode of the driver, and flags that are checked before the socket is opened.

use std::fmt;

use ebs_ec2::Tags;

use crate::server::EndpointError;
use crate::tags::TagError;

/// The services that a process serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    Controller,
    Node,
    All,
}

impl Mode {
    pub fn has_controller(self) -> bool {
        matches!(self, Self::Controller | Self::All)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Controller => "controller",
            Self::Node => "node",
            Self::All => "all",
        })
    }
}

/// An invalid option. The process exits with status 2 instead of starting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("--endpoint is not valid")]
    Endpoint(#[source] EndpointError),
    #[error("--endpoint-mode is {0:?}, but must be an octal number from 0 to 0777")]
    EndpointMode(String),
    #[error("--extra-tags has the entry {0:?}, but entries must have the form key=value, separated by commas")]
    ExtraTag(String),
    #[error("--extra-tags has an entry that is not valid")]
    Tag(#[source] TagError),
}

/// Parses `--endpoint-mode`: octal permission bits of the socket, such as `0600`.
pub fn endpoint_mode(text: &str) -> Result<u32, ConfigError> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    u32::from_str_radix(digits, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| ConfigError::EndpointMode(text.to_owned()))
}

/// Parses `--extra-tags` and the deprecated `--extra-volume-tags`. `--extra-tags` takes precedence.
pub fn extra_tags(extra: &[String], deprecated: &[String]) -> Result<Tags, ConfigError> {
    let mut tags = parse_tags(deprecated)?;
    if !tags.is_empty() {
        tracing::warn!(
            "--extra-volume-tags is deprecated: its tags are added to those of --extra-tags, which take precedence"
        );
    }
    tags.extend(parse_tags(extra)?);
    Ok(tags)
}

/// Parses flags of the form `k=v,k=v`. Trims white space and skips empty entries.
fn parse_tags(flags: &[String]) -> Result<Tags, ConfigError> {
    let entries = flags.iter().flat_map(|flag| flag.split(',')).map(str::trim).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let (key, value) = entry.split_once('=').ok_or_else(|| ConfigError::ExtraTag(entry.to_owned()))?;
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tags of both flags apply. For the same key, the extra tags take precedence.
    #[test]
    fn extra_tags_are_trimmed_and_override_the_deprecated_flag() {
        let extra = [" a = 1 ,,b=x=y".to_owned(), "c=".to_owned()];
        let tags = extra_tags(&extra, &["a=old,d=4".to_owned()]).expect("valid");
        let expected = [("a", "1"), ("b", "x=y"), ("c", ""), ("d", "4")];
        assert_eq!(tags, expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    }

    #[test]
    fn socket_mode_is_parsed_as_octal_permission_bits() {
        for (text, mode) in
            [("0600", Some(0o600)), ("660", Some(0o660)), ("0o777", Some(0o777)), ("1777", None), ("rw", None)]
        {
            assert_eq!(endpoint_mode(text).ok(), mode, "{text}");
        }
    }
}
