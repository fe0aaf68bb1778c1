//! The verbosity of a line. `--v=N` shows lines with verbosity N or less.
//!
//! The level determines the verbosity, and the name of an event can refine it: `tracing::debug!(name: "v5", "…")`.
//! Both are known before the line is formatted, so a hidden line costs almost nothing.
//!
//! | | lines |
//! |---|---|
//! | 0 | errors, warnings, changes of data and decisions (`info!`) |
//! | 2 | metadata, leader election (`info!`) |
//! | 3 | errors of AWS (`info!`) |
//! | 4 | requests, mounts, throttles of AWS (`debug!`) |
//! | 5 | how a device was found (`debug!`) |
//! | 6 | identity requests, identity data of a device (`debug!`) |
//! | 7 | everything (`trace!`) |
//! | 8 | watchers of Kubernetes objects (`trace!`) |

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};

/// Returns the verbosity of an event or span. Errors and warnings have verbosity 0, whatever their name.
pub(crate) fn of(metadata: &Metadata<'_>) -> u32 {
    let least = match *metadata.level() {
        Level::ERROR | Level::WARN => return 0,
        Level::INFO => 0,
        Level::DEBUG => 4,
        Level::TRACE => 7,
    };
    // A number in the name cannot lower the verbosity of a level, so `most` knows which levels can be skipped.
    let named = metadata.name().strip_prefix('v').and_then(|number| number.parse().ok());
    named.map_or(least, |named: u32| named.max(least))
}

/// Returns the most detailed level that has lines of this verbosity.
pub(crate) fn most(verbosity: u32) -> LevelFilter {
    match verbosity {
        0..=3 => LevelFilter::INFO,
        4..=6 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}
