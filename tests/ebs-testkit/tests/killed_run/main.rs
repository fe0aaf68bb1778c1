//! Tests of test runs that are killed. Each run is a separate process.

#[cfg(test)]
mod runs;
