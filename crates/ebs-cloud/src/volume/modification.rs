//! Modifications: growing a volume and changing its type, IOPS, throughput and tags (`ebs-cloud.md` 7).

mod end;
mod plan;
mod run;
