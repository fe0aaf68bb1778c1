//! Tests of the policy with the simulated EC2, in memory and on paused time.

mod attach;
mod beliefs;
mod clocks;
mod create;
mod detach;
mod detach_proof;
mod ec2_override;
mod ec2_refusals;
mod final_errors;
mod fixture;
mod hyperpod;
mod initialization;
mod iops;
mod lagging;
mod lists;
mod modify;
mod republish;
mod reused_names;
mod snapshot_features;
mod snapshots;
mod traffic;
mod two_leaders;
mod volumes;
mod zones;
