//! A whole disk: its partitions, the users that prevent its detachment, and its flush.

pub(crate) mod flush;
pub(crate) mod holders;
pub(crate) mod parts;
pub(crate) mod users;
