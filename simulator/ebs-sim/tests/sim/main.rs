//! Tests of the simulator from outside: over HTTP, as a process, and with third-party EC2 clients.

#[cfg(test)]
mod acceptance;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod control;
#[cfg(test)]
mod http;
#[cfg(test)]
mod process;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod support;
