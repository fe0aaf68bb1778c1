//! A whole disk: its partitions, the users that keep it from being detached, and its flush.

pub(crate) mod flush;
pub(crate) mod holders;
pub(crate) mod parts;
pub(crate) mod users;
