//! Which lines are written.

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

use super::verbosity;
use super::vmodule::ModuleLevels;
use crate::ours::is_ours;

/// By `--v` and `--vmodule`, unless `RUST_LOG` speaks of the place.
pub(super) struct Wanted {
    verbosity: u32,
    modules: ModuleLevels,
    rust_log: Option<RustLog>,
}

/// What `RUST_LOG` says, over nothing and over everything: where the two agree, it speaks of the place.
struct RustLog {
    over_nothing: EnvFilter,
    over_all: EnvFilter,
}

impl Wanted {
    pub(super) fn new(verbosity: u32, modules: ModuleLevels, rust_log: Option<&str>) -> Result<Self, ParseError> {
        let over = |base: &str, directives: &str| EnvFilter::builder().parse(format!("{base},{directives}"));
        let rust_log = match rust_log {
            Some(directives) => {
                Some(RustLog { over_nothing: over("off", directives)?, over_all: over("trace", directives)? })
            }
            None => None,
        };
        Ok(Self { verbosity, modules, rust_log })
    }

    fn by_verbosity(&self, metadata: &Metadata<'_>) -> bool {
        if !is_ours(metadata.target()) {
            return *metadata.level() <= Level::WARN;
        }
        let verbosity = verbosity::of(metadata);
        verbosity <= self.verbosity
            || metadata.file().and_then(|file| self.modules.of(file)).is_some_and(|level| verbosity <= level)
    }
}

/// Below INFO other people's crates print headers and bodies, credentials among them (`decisions.md` D-41): never, even when
/// `RUST_LOG` asks for it.
fn is_safe(metadata: &Metadata<'_>) -> bool {
    is_ours(metadata.target()) || *metadata.level() <= Level::INFO
}

/// The AWS SDK's warnings show errors with all that they hold, whole replies of STS among it (`decisions.md` D-41): of its lines
/// the message is written, which is fixed text, and which source of credentials it is about. What failed is told by ours.
pub(super) fn is_careless(target: &str) -> bool {
    target.starts_with("aws_") && !is_ours(target)
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Filter<S> for Wanted {
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        if !is_safe(metadata) {
            return false;
        }
        let Some(rust_log) = &self.rust_log else { return self.by_verbosity(metadata) };
        let says = |filter| <EnvFilter as Filter<S>>::enabled(filter, metadata, context);
        match (says(&rust_log.over_nothing), says(&rust_log.over_all)) {
            (true, _) => true,
            (_, false) => false,
            (false, true) => self.by_verbosity(metadata),
        }
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        let fixed = |wanted| if wanted { Interest::always() } else { Interest::never() };
        let rust_log = match &self.rust_log {
            _ if !is_safe(metadata) => return Interest::never(),
            None => return fixed(self.by_verbosity(metadata)),
            Some(rust_log) => rust_log,
        };
        // Both must hear of each place: they remember those with spans that they look for.
        let says = |filter| <EnvFilter as Filter<S>>::callsite_enabled(filter, metadata);
        let (over_nothing, over_all) = (says(&rust_log.over_nothing), says(&rust_log.over_all));
        match () {
            () if over_nothing.is_always() => Interest::always(),
            () if over_all.is_never() => Interest::never(),
            () if over_nothing.is_never() && over_all.is_always() => fixed(self.by_verbosity(metadata)),
            () => Interest::sometimes(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        match self.rust_log {
            Some(_) => Some(LevelFilter::TRACE),
            None => Some(verbosity::most(self.verbosity.max(self.modules.most()))),
        }
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        for filter in self.rust_log.iter().flat_map(RustLog::both) {
            <EnvFilter as Filter<S>>::on_new_span(filter, attributes, id, context.clone());
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        for filter in self.rust_log.iter().flat_map(RustLog::both) {
            <EnvFilter as Filter<S>>::on_record(filter, id, values, context.clone());
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        for filter in self.rust_log.iter().flat_map(RustLog::both) {
            <EnvFilter as Filter<S>>::on_enter(filter, id, context.clone());
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        for filter in self.rust_log.iter().flat_map(RustLog::both) {
            <EnvFilter as Filter<S>>::on_exit(filter, id, context.clone());
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        for filter in self.rust_log.iter().flat_map(RustLog::both) {
            <EnvFilter as Filter<S>>::on_close(filter, id.clone(), context.clone());
        }
    }
}

impl RustLog {
    fn both(&self) -> [&EnvFilter; 2] {
        [&self.over_nothing, &self.over_all]
    }
}
