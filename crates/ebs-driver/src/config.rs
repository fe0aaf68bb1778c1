//! The configuration of the driver, which is checked in one place before the socket is opened.

use std::fmt;

use ebs_ec2::{DriverName, Tags};

use crate::server::{Endpoint, EndpointError};
use crate::tags::{TagError, TagPolicy};

/// The services of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Identity and controller.
    Controller,
    /// Identity and node.
    Node,
    All,
}

impl Mode {
    /// Returns true when the process serves the controller.
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

/// The options as given, unchecked.
#[derive(Debug, Clone)]
pub struct DriverOptions {
    /// The first argument.
    pub mode: Mode,
    /// The build version (`v0.1.0`).
    pub version: String,
    /// `--endpoint`.
    pub endpoint: String,
    /// `--endpoint-mode`: octal permission bits of the socket, such as `0600`.
    pub endpoint_mode: String,
    /// `--extra-tags`, each as given (`k=v,k=v`).
    pub extra_tags: Vec<String>,
    /// `--extra-volume-tags`, deprecated. They are merged into the extra tags, which take precedence.
    pub extra_volume_tags: Vec<String>,
    /// `--k8s-tag-cluster-id`. Empty means unset.
    pub cluster_id: String,
    /// `--warn-on-invalid-tag`.
    pub warn_on_invalid_tag: bool,
}

/// The checked options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverConfig {
    /// The services of the process.
    pub mode: Mode,
    pub name: DriverName,
    pub version: String,
    /// The endpoint on which to listen.
    pub endpoint: Endpoint,
    /// The permission bits of the socket.
    pub endpoint_mode: u32,
    /// The tags that the driver sets.
    pub tags: TagPolicy,
}

/// An invalid option, because of which the process does not start (exit code 2).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// `--endpoint`.
    #[error("--endpoint is not valid")]
    Endpoint(#[source] EndpointError),
    /// `--endpoint-mode`.
    #[error("--endpoint-mode is {0:?}, but must be an octal number from 0 to 0777")]
    EndpointMode(String),
    /// An entry of `--extra-tags`.
    #[error("--extra-tags has the entry {0:?}, but entries must have the form key=value, separated by commas")]
    ExtraTag(String),
    /// A tag that EC2 or the driver never accepts.
    #[error("--extra-tags has an entry that is not valid")]
    Tag(#[source] TagError),
}

impl DriverConfig {
    /// Checks all options.
    ///
    /// # Errors
    /// [`ConfigError`] for the first invalid option.
    pub fn new(options: &DriverOptions) -> Result<Self, ConfigError> {
        let name = DriverName::default();
        let endpoint = Endpoint::parse(&options.endpoint).map_err(ConfigError::Endpoint)?;
        let endpoint_mode = parse_mode(&options.endpoint_mode)?;
        let mut extra = parse_tags(&options.extra_volume_tags)?;
        if !extra.is_empty() {
            tracing::warn!(
                "--extra-volume-tags is deprecated: its tags are added to those of --extra-tags, which take precedence"
            );
        }
        extra.extend(parse_tags(&options.extra_tags)?);
        let cluster_id = (!options.cluster_id.is_empty()).then(|| options.cluster_id.clone());
        let warn_on_invalid = options.warn_on_invalid_tag;
        let tags = TagPolicy { driver: name.clone(), cluster_id, extra, warn_on_invalid };
        tags.check_extra().map_err(ConfigError::Tag)?;
        Ok(Self { mode: options.mode, name, version: options.version.clone(), endpoint, endpoint_mode, tags })
    }
}

fn parse_mode(text: &str) -> Result<u32, ConfigError> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    u32::from_str_radix(digits, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| ConfigError::EndpointMode(text.to_owned()))
}

/// Parses `k=v,k=v`, repeated. Splits at commas, then at the first `=`, trims white space and skips empty entries.
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

    fn options() -> DriverOptions {
        DriverOptions {
            mode: Mode::All,
            version: "v0".to_owned(),
            endpoint: "unix:///tmp/csi.sock".to_owned(),
            endpoint_mode: "0600".to_owned(),
            extra_tags: Vec::new(),
            extra_volume_tags: Vec::new(),
            cluster_id: String::new(),
            warn_on_invalid_tag: false,
        }
    }

    /// The tags of the deprecated flag are merged, and lose against extra tags.
    #[test]
    fn extra_tags_are_trimmed_and_override_the_deprecated_flag() {
        let extra_tags = vec![" a = 1 ,,b=x=y".to_owned(), "c=".to_owned()];
        let extra_volume_tags = vec!["a=old,d=4".to_owned()];
        let config = DriverConfig::new(&DriverOptions { extra_tags, extra_volume_tags, ..options() }).expect("valid");
        let expected = [("a", "1"), ("b", "x=y"), ("c", ""), ("d", "4")];
        assert_eq!(config.tags.extra, expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    }

    #[test]
    fn reserved_or_valueless_extra_tag_prevents_the_start() {
        for bad in
            ["CSIVolumeName=x", "kubernetes.iosomething=x", "ebs.csi.aws.com/cluster=false", "aws:x=y", "novalue"]
        {
            let result = DriverConfig::new(&DriverOptions { extra_tags: vec![bad.to_owned()], ..options() });
            assert!(matches!(result, Err(ConfigError::Tag(_) | ConfigError::ExtraTag(_))), "{bad}: {result:?}");
        }
    }

    #[test]
    fn socket_mode_is_parsed_as_octal_permission_bits() {
        for (text, mode) in
            [("0600", Some(0o600)), ("660", Some(0o660)), ("0o777", Some(0o777)), ("1777", None), ("rw", None)]
        {
            let got = DriverConfig::new(&DriverOptions { endpoint_mode: text.to_owned(), ..options() });
            assert_eq!(got.ok().map(|c| c.endpoint_mode), mode, "{text}");
        }
    }
}
