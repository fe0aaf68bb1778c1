//! The places that may know what machine this is.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use crate::{BlockDevices, Imds, MetadataError, NodeMetadata};

/// A place that `--metadata-sources` can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// The instance metadata service of EC2.
    Imds,
    /// The machine's Node object in Kubernetes.
    Kubernetes,
    /// The same, with what the metadata labeler has written on it.
    MetadataLabeler,
}

impl SourceKind {
    /// Each.
    pub const ALL: [Self; 3] = [Self::Imds, Self::Kubernetes, Self::MetadataLabeler];

    /// Its word in the flag.
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

/// A word that names no source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a source: use imds, kubernetes, metadata-labeler")]
pub struct UnknownSource {
    given: String,
}

impl FromStr for SourceKind {
    type Err = UnknownSource;

    /// Blanks around the word and the case of its letters do not matter.
    fn from_str(word: &str) -> Result<Self, UnknownSource> {
        let lower = word.trim().to_lowercase();
        Self::ALL.into_iter().find(|kind| kind.as_str() == lower).ok_or(UnknownSource { given: lower })
    }
}

/// Why a source does not know.
#[derive(Debug, Clone, thiserror::Error)]
#[error("metadata source {kind}")]
pub struct SourceError {
    /// Which.
    pub kind: SourceKind,
    /// What the source says the machine is, when it is positive that it is no EC2 instance.
    pub foreign: Option<String>,
    /// The source may know a moment later: it was slow, or the machine was.
    pub may_pass: bool,
    /// Why.
    #[source]
    pub cause: Arc<dyn Error + Send + Sync>,
}

impl SourceError {
    /// The source does not know, and that is all.
    pub fn new(kind: SourceKind, cause: impl Error + Send + Sync + 'static) -> Self {
        Self { kind, foreign: None, may_pass: false, cause: Arc::new(cause) }
    }
}

impl SourceError {
    /// All that went wrong, outermost first.
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

/// What a source answers.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<NodeMetadata, SourceError>> + Send + 'a>>;

/// A place that may know. Answers are bounded in time and may be dropped at any time.
pub trait Source: fmt::Debug + Send + Sync {
    /// Which it is.
    fn kind(&self) -> SourceKind;

    /// Asks for everything.
    fn read(&self) -> Answer<'_>;

    /// Asks again for what may have changed since `known` was read.
    fn refresh<'a>(&'a self, known: &'a NodeMetadata) -> Answer<'a>;

    /// A source that failed may know later.
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

    /// The service keeps one thing up to date: the network interfaces.
    fn refresh<'a>(&'a self, known: &'a NodeMetadata) -> Answer<'a> {
        Box::pin(async {
            let interfaces = self.refresh_interfaces().await;
            let network_interfaces = interfaces.map_err(|error| SourceError::new(SourceKind::Imds, error))?;
            Ok(NodeMetadata { network_interfaces, ..known.clone() })
        })
    }
}

/// A source that can be said not to work before it is asked: switched off, or its address makes no sense.
#[derive(Debug)]
pub struct Unusable(SourceError);

impl Unusable {
    /// It fails like this whenever it is asked.
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
    /// How many take a place that the driver's own volumes cannot have, when so many of the driver's were attached as the
    /// machine booted.
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
    fn a_source_is_named_by_its_word_whatever_the_case_and_blanks() {
        for kind in SourceKind::ALL {
            assert_eq!(format!(" {} ", kind.as_str().to_uppercase()).parse(), Ok(kind));
        }
        let refused = "aws".parse::<SourceKind>().unwrap_err().to_string();
        assert!(refused.contains("\"aws\"") && refused.contains("metadata-labeler"), "{refused}");
        assert!("".parse::<SourceKind>().is_err());
    }

    #[test]
    fn the_drivers_own_volumes_count_only_where_the_source_cannot_tell_them_apart() {
        assert_eq!((BlockDevices::AtBoot(3).others(2), BlockDevices::AtBoot(1).others(2)), (1, 0));
        assert_eq!(BlockDevices::Others(3).others(2), 3);
    }
}
