//! What the policy costs in calls and time under load, over the simulated EC2 with realistic times and limits, on
//! paused time (`decisions.md` D-20 to D-24).

mod batching;
mod load;
mod waits;
mod world;
