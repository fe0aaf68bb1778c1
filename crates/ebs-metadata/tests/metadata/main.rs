//! Tests the metadata client through its public interface.

#[cfg(test)]
mod imds;
