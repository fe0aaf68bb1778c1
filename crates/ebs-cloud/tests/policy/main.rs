//! The policy over the simulated EC2, in memory and on paused time.

mod attach;
mod create;
mod detach;
mod expand;
mod lens;
mod lists;
mod rig;
mod snapshots;
mod volumes;
