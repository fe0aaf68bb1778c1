//! Keeps the metadata of this machine up to date, from the first source that has it. Retries the preferred sources.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::source::{Source, SourceError};
use crate::{NodeMetadata, SourceKind};

/// Time limit for retrying the preferred sources within one request.
const BETTER_WITHIN: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_secs(15);
const LONGEST_PAUSE: Duration = Duration::from_hours(1);
/// How long the driver retries all sources at startup if one of them may only have been slow.
const START_WITHIN: Duration = Duration::from_mins(3);
const START_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_START_PAUSE: Duration = Duration::from_secs(8);

/// No source has the metadata of this machine.
#[derive(Debug, Clone)]
pub struct NoMetadata {
    failures: Vec<SourceError>,
}

impl NoMetadata {
    /// If a source is certain that the machine is not an EC2 instance, returns what the machine is.
    pub fn foreign(&self) -> Option<&str> {
        self.failures.iter().find_map(|failure| failure.foreign.as_deref())
    }

    /// True if a retry may succeed and no source is certain that this is not an EC2 instance.
    fn may_pass(&self) -> bool {
        self.foreign().is_none() && self.failures.iter().any(|failure| failure.may_pass)
    }
}

impl fmt::Display for NoMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.failures.is_empty() {
            return f.write_str("--metadata-sources is empty; list at least one source");
        }
        f.write_str("every metadata source failed")?;
        self.failures.iter().enumerate().try_for_each(|(index, failure)| {
            let before = if index == 0 { ":" } else { ";" };
            write!(f, "{before} {}", failure.chain())
        })
    }
}

impl std::error::Error for NoMetadata {}

#[derive(Debug)]
pub struct Machine {
    sources: Vec<Box<dyn Source>>,
    /// `AWS_REGION`, which overrides the region of every source.
    region: Option<String>,
    known: Mutex<Known>,
    /// Locked by the request that retries the preferred sources.
    better: tokio::sync::Mutex<Better>,
}

#[derive(Debug, Clone)]
struct Known {
    metadata: Arc<NodeMetadata>,
    /// Index of the source in the list. Past the end of the list if the caller supplied the metadata.
    by: usize,
}

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
    /// Queries the sources in their order and uses the first that answers. If none answers and one may only have been
    /// slow, queries all of them again for at most three minutes, so that a busy machine starts late rather than never.
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
            tracing::warn!(reason = %unknown, "instance not identified yet, retrying the metadata sources");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_START_PAUSE);
        }
    }

    /// Creates a machine from known metadata, which never changes.
    pub fn told(metadata: NodeMetadata) -> Self {
        let known = Mutex::new(Known { metadata: Arc::new(metadata), by: 0 });
        let better = tokio::sync::Mutex::new(Better::after_start());
        Self { sources: Vec::new(), region: None, known, better }
    }

    /// Returns the source in use, or `None` if the caller supplied the metadata.
    pub fn source(&self) -> Option<SourceKind> {
        self.sources.get(self.known().by).map(|source| source.kind())
    }

    pub fn metadata(&self) -> Arc<NodeMetadata> {
        Arc::clone(&self.known().metadata)
    }

    /// Refreshes the metadata that can change. If no source answers, returns the last known metadata.
    pub async fn refreshed(&self) -> Arc<NodeMetadata> {
        if let Some(metadata) = self.better_answer().await {
            return metadata;
        }
        let Known { metadata, by } = self.known().clone();
        let Some(source) = self.sources.get(by) else { return metadata };
        match source.refresh(&metadata).await {
            Ok(fresh) => self.accept(fresh, by).unwrap_or(metadata),
            Err(failure) => {
                tracing::warn!(reason = failure.chain(), "failed to refresh the metadata");
                self.metadata()
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a response if it describes this machine and no better source has answered since the query began.
    fn accept(&self, fresh: NodeMetadata, by: usize) -> Option<Arc<NodeMetadata>> {
        let fresh = Arc::new(in_region(fresh, self.region.as_deref()));
        let mut known = self.known();
        if fresh.node != known.metadata.node {
            tracing::warn!(
                before = %known.metadata.node,
                now = %fresh.node,
                source = self.sources.get(by).map(|source| source.kind().as_str()),
                "ignoring a metadata source whose instance differs from the one at start-up"
            );
            return None;
        }
        if by <= known.by {
            *known = Known { metadata: Arc::clone(&fresh), by };
        }
        Some(fresh)
    }

    async fn better_answer(&self) -> Option<Arc<NodeMetadata>> {
        let by = self.known().by;
        let candidates: Vec<_> =
            self.sources.iter().take(by).enumerate().filter(|(_, source)| source.may_recover()).collect();
        if candidates.is_empty() {
            return None;
        }
        // If another request is already retrying these sources, use the known metadata.
        let mut better = self.better.try_lock().ok()?;
        if Instant::now() < better.not_before {
            return None;
        }
        for (place, source) in candidates {
            let Ok(Ok(fresh)) = tokio::time::timeout(BETTER_WITHIN, source.read()).await else { continue };
            if let Some(metadata) = self.accept(fresh, place) {
                tracing::info!(source = %source.kind(), "instance identified by a preferred metadata source");
                return Some(metadata);
            }
        }
        better.failed();
        None
    }
}

async fn ask(sources: &[Box<dyn Source>]) -> Result<(NodeMetadata, usize), Vec<SourceError>> {
    let mut failures = Vec::new();
    for (by, source) in sources.iter().enumerate() {
        match source.read().await {
            Ok(metadata) => {
                for failure in &failures {
                    tracing::warn!(reason = SourceError::chain(failure), "metadata source failed");
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
