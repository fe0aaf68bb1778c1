//! How far down a line is, as a number: `--v=N` shows lines of verbosity N and below.
//!
//! The level gives the number, and the name of an event a finer one: `tracing::debug!(name: "v5", "…")`. A name is known
//! before anything is formatted, so a line that is not wanted costs next to nothing.
//!
//! | | what |
//! |---|---|
//! | 0 | errors, warnings, what changes data or decides something (`info!`) |
//! | 2 | metadata, who leads (`info!`) |
//! | 3 | errors of AWS (`info!`) |
//! | 4 | requests, mounts, throttles of AWS (`debug!`) |
//! | 5 | how a device was found (`debug!`) |
//! | 6 | identity requests, what a device says it is (`debug!`) |
//! | 7 | everything (`trace!`) |
//! | 8 | watchers of Kubernetes objects (`trace!`) |

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};

/// The verbosity of an event or span. Errors and warnings are 0 whatever their name.
pub(crate) fn of(metadata: &Metadata<'_>) -> u32 {
    let least = match *metadata.level() {
        Level::ERROR | Level::WARN => return 0,
        Level::INFO => 0,
        Level::DEBUG => 4,
        Level::TRACE => 7,
    };
    // Never less than the level's: `most` could not say what may be skipped.
    named(metadata.name()).map_or(least, |named| named.max(least))
}

/// The most detailed level that has lines of this verbosity.
pub(crate) fn most(verbosity: u32) -> LevelFilter {
    match verbosity {
        0..=3 => LevelFilter::INFO,
        4..=6 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

fn named(name: &str) -> Option<u32> {
    name.strip_prefix('v')?.parse().ok()
}
