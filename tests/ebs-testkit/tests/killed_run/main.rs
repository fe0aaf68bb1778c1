//! Tests of killed test runs, as separate processes.

#[cfg(test)]
mod runs;
