//! Tests the client with an HTTP server that records requests and returns prepared answers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attempts;
mod clock;
mod corpus;
mod credentials;
mod ec2_replies;
mod endpoints;
mod failures;
mod fixtures;
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
