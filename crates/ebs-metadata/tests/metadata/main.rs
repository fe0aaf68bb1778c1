//! Tests the metadata client from outside.

#[cfg(test)]
mod imds;
