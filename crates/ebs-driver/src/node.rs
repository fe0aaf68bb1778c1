//! The node service.
