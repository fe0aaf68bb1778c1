//! Modifications: growing a volume and changing its type, IOPS, throughput and tags.

mod end;
mod plan;
mod run;
