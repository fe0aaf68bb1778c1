//! Which lines `--v` and `--vmodule` ask for.

use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

use super::verbosity;
use super::vmodule::ModuleLevels;

/// Of one's own code the lines up to a verbosity, more of some files; of all other code errors and warnings.
#[derive(Debug, Clone)]
pub struct ByVerbosity {
    verbosity: u32,
    modules: ModuleLevels,
    is_ours: fn(&str) -> bool,
    others: bool,
}

impl ByVerbosity {
    /// `is_ours` tells own code by its target.
    pub fn new(verbosity: u32, modules: ModuleLevels, is_ours: fn(&str) -> bool) -> Self {
        Self { verbosity, modules, is_ours, others: true }
    }

    /// Nothing of other code, whose lines may hold what its users sent.
    #[must_use]
    pub fn without_others(self) -> Self {
        Self { others: false, ..self }
    }

    /// An event or span is wanted.
    pub fn takes(&self, metadata: &Metadata<'_>) -> bool {
        if !(self.is_ours)(metadata.target()) {
            return self.others && *metadata.level() <= Level::WARN;
        }
        let verbosity = verbosity::of(metadata);
        verbosity <= self.verbosity
            || metadata.file().and_then(|file| self.modules.of(file)).is_some_and(|level| verbosity <= level)
    }

    /// The most detailed level of which anything is wanted.
    pub fn most(&self) -> LevelFilter {
        verbosity::most(self.verbosity.max(self.modules.most()))
    }
}

impl<S: Subscriber> Filter<S> for ByVerbosity {
    fn enabled(&self, metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        self.takes(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.takes(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.most())
    }
}
