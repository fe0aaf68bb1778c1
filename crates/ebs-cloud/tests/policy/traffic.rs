//! The costs of the policy in calls and time under load, with the simulated EC2's realistic times and limits.

mod batching;
mod load;
mod world;
