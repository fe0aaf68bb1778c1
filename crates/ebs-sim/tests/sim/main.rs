//! The simulator from outside: over HTTP, as a process, and by the AWS CLI.

#[cfg(test)]
mod aws_cli;
#[cfg(test)]
mod http;
#[cfg(test)]
mod process;
#[cfg(test)]
mod support;
