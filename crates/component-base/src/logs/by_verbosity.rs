//! The filter by `--v` and `--vmodule`.

use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

use super::verbosity;
use super::vmodule::ModuleLevels;

/// Accepts the program's own lines up to a verbosity, which can differ by file, and other crates' errors and warnings.
#[derive(Debug, Clone)]
pub struct ByVerbosity {
    verbosity: u32,
    modules: ModuleLevels,
    is_ours: fn(&str) -> bool,
    others: bool,
}

impl ByVerbosity {
    /// Creates the filter. `is_ours` recognises the program's own code by its target.
    pub fn new(verbosity: u32, modules: ModuleLevels, is_ours: fn(&str) -> bool) -> Self {
        Self { verbosity, modules, is_ours, others: true }
    }

    /// Excludes other crates entirely, because their lines may contain user data.
    #[must_use]
    pub fn without_others(self) -> Self {
        Self { others: false, ..self }
    }

    fn takes(&self, metadata: &Metadata<'_>) -> bool {
        if !(self.is_ours)(metadata.target()) {
            return self.others && *metadata.level() <= Level::WARN;
        }
        let verbosity = verbosity::of(metadata);
        verbosity <= self.verbosity
            || metadata.file().and_then(|file| self.modules.of(file)).is_some_and(|level| verbosity <= level)
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
        Some(verbosity::most(self.verbosity.max(self.modules.most())))
    }
}
