//! How much is asked of EC2, and when (`decisions.md` D-20 to D-22).
//!
//! - [`Paced`] is the port behind the budget: every call, of whatever part of the policy, waits for its token there.
//! - [`Budget`] believes how many calls EC2 still takes, by what EC2 documents and what its throttles teach.
//! - [`Desks`] ask: one desk for each kind of object, which puts the questions of all who wait into few calls.
//! - [`Lookups`] are single questions at those desks; waits stand there until their judge is content.

mod board;
mod bucket;
mod budget;
mod caller;
mod desk;
mod flight;
mod kinds;
mod lane;
mod lookups;
mod paced;
mod queue;
mod usual;

pub(crate) use budget::Budget;
pub(crate) use caller::Caller;
pub(crate) use desk::{Desk, First, News};
pub(crate) use kinds::{Desks, Kind};
pub(crate) use lane::Lane;
pub(crate) use lookups::{Lookups, latest};
pub(crate) use paced::Paced;
pub(crate) use usual::UsualTimes;
