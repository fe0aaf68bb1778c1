//! Operations on a whole disk: finds the users that prevent its detachment, and flushes it.

pub(crate) mod flush;
pub(crate) mod users;
