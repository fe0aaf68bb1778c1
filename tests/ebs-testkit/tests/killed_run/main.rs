//! Tests that a test run removes what earlier killed runs have left. Each run is a separate process.

#[cfg(test)]
mod runs;
