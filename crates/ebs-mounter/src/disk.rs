//! A whole disk: the users that prevent its detachment, and its flush.

pub(crate) mod flush;
pub(crate) mod users;
