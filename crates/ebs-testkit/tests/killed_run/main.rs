//! Test runs that are killed, as processes of their own.

#[cfg(test)]
mod runs;
