//! The client against an HTTP server that records what it is sent and answers what a test tells it to.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attempts;
mod bad_replies;
mod classes;
mod clock;
mod corpus;
mod credentials;
mod ec2_replies;
mod endpoints;
mod failures;
mod hyperpod;
mod in_process;
mod logs;
mod model;
mod mutated;
mod network;
mod replies;
mod requests;
mod server;
mod settings;
mod signature;
