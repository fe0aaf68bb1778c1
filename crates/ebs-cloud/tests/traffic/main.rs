//! What the policy costs in calls and time under load, over the simulated EC2 with realistic times and limits, on
//! paused time.

mod batching;
mod load;
mod waits;
mod world;
