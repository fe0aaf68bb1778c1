//! Modifications of a volume: its size, type, IOPS, throughput and tags.
//!
//! Decision: `docs/dev/decisions/0011-merge-modifications-of-one-volume.md`.

mod end;
mod plan;
mod run;

pub(super) use run::{description, modify};
