//! The filter for log lines.

use component_base::logs::{ByVerbosity, Careless, ModuleLevels};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

use crate::ours::is_ours;

/// Filters by `--v` and `--vmodule`, unless `RUST_LOG` has a directive for the target.
pub(super) struct Wanted {
    by_verbosity: ByVerbosity,
    rust_log: Option<RustLog>,
}

/// `RUST_LOG` applied on top of "off" and on top of "everything". Where both agree, a directive covers the target.
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
        Ok(Self { by_verbosity: ByVerbosity::new(verbosity, modules, is_ours), rust_log })
    }
}

/// Below INFO, other crates print headers and bodies with credentials. These lines are never shown, even when
/// `RUST_LOG` enables them.
fn is_safe(metadata: &Metadata<'_>) -> bool {
    is_ours(metadata.target()) || *metadata.level() <= Level::INFO
}

/// The AWS SDK's warnings contain complete errors, including whole replies of STS. Only the message, which is fixed
/// text, and the credential provider are logged. The driver's own lines report the failure.
pub(super) const CARELESS: Careless =
    Careless { is: |target| target.starts_with("aws_") && !is_ours(target), fields: &["provider"] };

impl<S: Subscriber + for<'a> LookupSpan<'a>> Filter<S> for Wanted {
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        if !is_safe(metadata) {
            return false;
        }
        let Some(rust_log) = &self.rust_log else { return self.by_verbosity.takes(metadata) };
        let says = |filter| <EnvFilter as Filter<S>>::enabled(filter, metadata, context);
        match (says(&rust_log.over_nothing), says(&rust_log.over_all)) {
            (true, _) => true,
            (_, false) => false,
            (false, true) => self.by_verbosity.takes(metadata),
        }
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        let fixed = |wanted| if wanted { Interest::always() } else { Interest::never() };
        let rust_log = match &self.rust_log {
            _ if !is_safe(metadata) => return Interest::never(),
            None => return fixed(self.by_verbosity.takes(metadata)),
            Some(rust_log) => rust_log,
        };
        // Call both filters for each callsite: each remembers callsites with spans that it matches.
        let says = |filter| <EnvFilter as Filter<S>>::callsite_enabled(filter, metadata);
        let (over_nothing, over_all) = (says(&rust_log.over_nothing), says(&rust_log.over_all));
        match () {
            () if over_nothing.is_always() => Interest::always(),
            () if over_all.is_never() => Interest::never(),
            () if over_nothing.is_never() && over_all.is_always() => fixed(self.by_verbosity.takes(metadata)),
            () => Interest::sometimes(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        match self.rust_log {
            Some(_) => Some(LevelFilter::TRACE),
            None => Some(self.by_verbosity.most()),
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
