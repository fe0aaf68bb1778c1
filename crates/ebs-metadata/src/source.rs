//! The sources of a machine's metadata.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use crate::{BlockDevices, Imds, MetadataError, NodeMetadata};

/// A source that `--metadata-sources` can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceKind {
    Imds,
    Kubernetes,
    /// The machine's Node object with the labels of the metadata labeler.
    MetadataLabeler,
}

impl SourceKind {
    pub const ALL: [Self; 3] = [Self::Imds, Self::Kubernetes, Self::MetadataLabeler];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Imds => "imds",
            Self::Kubernetes => "kubernetes",
            Self::MetadataLabeler => "metadata-labeler",
        }
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is not the name of a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("metadata source {given:?} is unsupported; use imds, kubernetes or metadata-labeler")]
pub struct UnknownSource {
    given: String,
}

impl FromStr for SourceKind {
    type Err = UnknownSource;

    /// Ignores surrounding white space and case.
    fn from_str(word: &str) -> Result<Self, UnknownSource> {
        let lower = word.trim().to_lowercase();
        Self::ALL.into_iter().find(|kind| kind.as_str() == lower).ok_or(UnknownSource { given: lower })
    }
}

#[derive(Debug, Clone, thiserror::Error)]
#[error("metadata source {kind}")]
pub struct SourceError {
    pub kind: SourceKind,
    pub foreign: Option<String>,
    /// True if a retry may succeed, because the source or the machine was slow.
    pub may_pass: bool,
    #[source]
    pub cause: Arc<dyn Error + Send + Sync>,
}

impl SourceError {
    /// Creates a permanent failure that leaves open whether the machine is an EC2 instance.
    pub fn new(kind: SourceKind, cause: impl Error + Send + Sync + 'static) -> Self {
        Self { kind, foreign: None, may_pass: false, cause: Arc::new(cause) }
    }

    pub(crate) fn chain(&self) -> String {
        let mut text = format!("{}: {}", self.kind, self.cause);
        let mut cause = self.cause.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<NodeMetadata, SourceError>> + Send + 'a>>;

/// A source of metadata. Its futures end within a time limit and may be dropped at any time.
pub trait Source: fmt::Debug + Send + Sync {
    fn kind(&self) -> SourceKind;

    fn read(&self) -> Answer<'_>;

    /// Queries again the part of the metadata that may have changed since `known`.
    fn refresh<'a>(&'a self, known: &'a NodeMetadata) -> Answer<'a>;

    /// True if the source may answer later although it failed before.
    fn may_recover(&self) -> bool {
        true
    }
}

impl Source for Imds {
    fn kind(&self) -> SourceKind {
        SourceKind::Imds
    }

    fn read(&self) -> Answer<'_> {
        Box::pin(async {
            let failed = |error: MetadataError| {
                let may_pass = error.may_pass();
                SourceError { may_pass, ..SourceError::new(SourceKind::Imds, error) }
            };
            Imds::read(self).await.map_err(failed)
        })
    }

    /// Queries only the network interfaces, because the metadata service keeps no other item up to date.
    fn refresh<'a>(&'a self, known: &'a NodeMetadata) -> Answer<'a> {
        Box::pin(async {
            let interfaces = self.refresh_interfaces().await;
            let network_interfaces = interfaces.map_err(|error| SourceError::new(SourceKind::Imds, error))?;
            Ok(NodeMetadata { network_interfaces, ..known.clone() })
        })
    }
}

/// A source that fails without a query, because it is disabled or its address is invalid.
#[derive(Debug)]
pub struct Unusable(SourceError);

impl Unusable {
    pub fn new(kind: SourceKind, cause: impl Error + Send + Sync + 'static) -> Self {
        Self(SourceError::new(kind, cause))
    }
}

impl Source for Unusable {
    fn kind(&self) -> SourceKind {
        self.0.kind
    }

    fn read(&self) -> Answer<'_> {
        Box::pin(std::future::ready(Err(self.0.clone())))
    }

    fn refresh<'a>(&'a self, _known: &'a NodeMetadata) -> Answer<'a> {
        self.read()
    }

    fn may_recover(&self) -> bool {
        false
    }
}

impl BlockDevices {
    /// Returns how many volumes the driver does not manage, if `own_at_boot` of the driver's volumes were attached at
    /// boot.
    pub fn others(self, own_at_boot: u32) -> u32 {
        match self {
            Self::AtBoot(all) => all.saturating_sub(own_at_boot),
            Self::Others(others) => others,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_source_name_ignores_case_and_white_space() {
        for kind in SourceKind::ALL {
            assert_eq!(format!(" {} ", kind.as_str().to_uppercase()).parse(), Ok(kind));
        }
        let refused = "aws".parse::<SourceKind>().unwrap_err().to_string();
        assert!(refused.contains("\"aws\"") && refused.contains("metadata-labeler"), "{refused}");
        assert!("".parse::<SourceKind>().is_err());
    }

    #[test]
    fn own_volumes_are_subtracted_from_the_device_count_at_boot() {
        assert_eq!((BlockDevices::AtBoot(3).others(2), BlockDevices::AtBoot(1).others(2)), (1, 0));
        assert_eq!(BlockDevices::Others(3).others(2), 3);
    }
}
