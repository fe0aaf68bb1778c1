//! What is known of this machine, by the first of several sources that knows, kept up to date.
//!
//! The sources are tried in the order of the flag, and the first that answers is believed. While it is not the first of the list,
//! those before it are asked again now and then: a metadata service that was away for a moment when the driver started is no
//! reason to live with less for good.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::source::{Source, SourceError};
use crate::{NodeMetadata, SourceKind};

/// A better source gets so much of a request's time.
const BETTER_WITHIN: Duration = Duration::from_secs(5);
/// When it is asked first after it failed; each time that it fails again the pause doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(15);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);
/// At the start, so long all sources are asked again while one of them may only have been slow.
const START_WITHIN: Duration = Duration::from_mins(3);
/// The pause before that; each later one is twice as long.
const START_PAUSE: Duration = Duration::from_millis(500);
/// The longest of these.
const LONGEST_START_PAUSE: Duration = Duration::from_secs(8);

/// No source knows what machine this is.
#[derive(Debug, Clone)]
pub struct NoMetadata {
    failures: Vec<SourceError>,
}

impl NoMetadata {
    /// What the machine is, if a source is positive that it is no EC2 instance.
    pub fn foreign(&self) -> Option<&str> {
        self.failures.iter().find_map(|failure| failure.foreign.as_deref())
    }

    /// True when a source may know a moment later, and none is positive that this is no EC2 instance.
    fn may_pass(&self) -> bool {
        self.foreign().is_none() && self.failures.iter().any(|failure| failure.may_pass)
    }
}

impl fmt::Display for NoMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.failures.is_empty() {
            return f.write_str("--metadata-sources names no source");
        }
        f.write_str("no metadata source knows")?;
        self.failures.iter().enumerate().try_for_each(|(index, failure)| {
            let before = if index == 0 { ":" } else { ";" };
            write!(f, "{before} {}", failure.chain())
        })
    }
}

impl std::error::Error for NoMetadata {}

/// This machine.
#[derive(Debug)]
pub struct Machine {
    sources: Vec<Box<dyn Source>>,
    /// `AWS_REGION`: replaces the region of any source.
    region: Option<String>,
    known: Mutex<Known>,
    /// Held by the one request that asks a better source.
    better: tokio::sync::Mutex<Better>,
}

#[derive(Debug, Clone)]
struct Known {
    metadata: Arc<NodeMetadata>,
    /// Place of the source in the list; past its end for what was told.
    by: usize,
}

/// When a better source is asked again.
#[derive(Debug)]
struct Better {
    not_before: Instant,
    pause: Duration,
}

impl Better {
    fn after_start() -> Self {
        Self { not_before: Instant::now() + FIRST_PAUSE, pause: FIRST_PAUSE }
    }

    fn failed(&mut self) {
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.not_before = Instant::now() + self.pause;
    }
}

impl Machine {
    /// Asks the sources in their order; the first that answers is believed. `AWS_REGION`, where given, replaces its region.
    /// When none answers and one of them may only have been slow, all are asked again: a machine with much to do starts late,
    /// not never.
    ///
    /// Bounded by three minutes and what the sources take one after the other. Cancellation: nothing is left behind.
    ///
    /// # Errors
    /// [`NoMetadata`] with the reason of each source.
    pub async fn find(sources: Vec<Box<dyn Source>>, region: Option<String>) -> Result<Self, NoMetadata> {
        let (deadline, mut pause) = (Instant::now() + START_WITHIN, START_PAUSE);
        loop {
            let unknown = match ask(&sources).await {
                Ok((metadata, by)) => {
                    let known = Known { metadata: Arc::new(in_region(metadata, region.as_deref())), by };
                    let better = tokio::sync::Mutex::new(Better::after_start());
                    return Ok(Self { sources, region, known: Mutex::new(known), better });
                }
                Err(failures) => NoMetadata { failures },
            };
            if !unknown.may_pass() || Instant::now() + pause > deadline {
                return Err(unknown);
            }
            tracing::warn!(reason = %unknown, "what machine this is is not known yet: the sources are asked again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_START_PAUSE);
        }
    }

    /// A machine of which everything is told and nothing changes.
    pub fn told(metadata: NodeMetadata) -> Self {
        let known = Mutex::new(Known { metadata: Arc::new(metadata), by: 0 });
        let better = tokio::sync::Mutex::new(Better::after_start());
        Self { sources: Vec::new(), region: None, known, better }
    }

    /// The source that is believed; `None` when it was told.
    pub fn source(&self) -> Option<SourceKind> {
        self.sources.get(self.known().by).map(|source| source.kind())
    }

    /// What is known, without asking anybody.
    pub fn metadata(&self) -> Arc<NodeMetadata> {
        Arc::clone(&self.known().metadata)
    }

    /// What is known after asking again for what may change: all of it from one answer. When the source is silent, what was
    /// heard last.
    ///
    /// Many may ask at once. Cancellation: nothing is left behind.
    pub async fn refreshed(&self) -> Arc<NodeMetadata> {
        if let Some(metadata) = self.better_answer().await {
            return metadata;
        }
        let Known { metadata, by } = self.known().clone();
        let Some(source) = self.sources.get(by) else { return metadata };
        match source.refresh(&metadata).await {
            Ok(fresh) => self.accept(fresh, by).unwrap_or(metadata),
            Err(failure) => {
                tracing::warn!(
                    reason = failure.chain(),
                    "what may have changed of this machine could not be read again"
                );
                self.metadata()
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an answer over, if it is about this machine and not from a lesser source than the one believed meanwhile.
    fn accept(&self, fresh: NodeMetadata, by: usize) -> Option<Arc<NodeMetadata>> {
        let fresh = Arc::new(in_region(fresh, self.region.as_deref()));
        let mut known = self.known();
        if fresh.node != known.metadata.node {
            tracing::warn!(
                before = %known.metadata.node,
                now = %fresh.node,
                source = self.sources.get(by).map(|source| source.kind().as_str()),
                "a metadata source names another instance than the one this driver started on; it is not believed"
            );
            return None;
        }
        if by <= known.by {
            *known = Known { metadata: Arc::clone(&fresh), by };
        }
        Some(fresh)
    }

    /// Asks the sources before the one that is believed, if it is time to.
    async fn better_answer(&self) -> Option<Arc<NodeMetadata>> {
        let by = self.known().by;
        let candidates: Vec<_> =
            self.sources.iter().take(by).enumerate().filter(|(_, source)| source.may_recover()).collect();
        if candidates.is_empty() {
            return None;
        }
        // Another request does it already.
        let mut better = self.better.try_lock().ok()?;
        if Instant::now() < better.not_before {
            return None;
        }
        for (place, source) in candidates {
            let Ok(Ok(fresh)) = tokio::time::timeout(BETTER_WITHIN, source.read()).await else { continue };
            if let Some(metadata) = self.accept(fresh, place) {
                tracing::info!(source = %source.kind(), "this machine is now known by a better source");
                return Some(metadata);
            }
        }
        better.failed();
        None
    }
}

/// The first answer, and the place of its source.
async fn ask(sources: &[Box<dyn Source>]) -> Result<(NodeMetadata, usize), Vec<SourceError>> {
    let mut failures = Vec::new();
    for (by, source) in sources.iter().enumerate() {
        match source.read().await {
            Ok(metadata) => {
                for failure in &failures {
                    tracing::warn!(
                        reason = SourceError::chain(failure),
                        "a metadata source does not know this machine"
                    );
                }
                return Ok((metadata, by));
            }
            Err(failure) => failures.push(failure),
        }
    }
    Err(failures)
}

fn in_region(metadata: NodeMetadata, region: Option<&str>) -> NodeMetadata {
    match region {
        Some(region) => NodeMetadata { region: region.to_owned(), ..metadata },
        None => metadata,
    }
}

#[cfg(test)]
mod tests;
