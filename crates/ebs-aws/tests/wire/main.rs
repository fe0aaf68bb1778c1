//! The client against an HTTP server that records what it is sent and answers what a test tells it to.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod failures;
mod replies;
mod requests;
mod server;
