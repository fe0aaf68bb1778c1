//! The platforms of the image.

use std::fmt;
use std::str::FromStr;

use anyhow::bail;
use object::elf::{EM_AARCH64, EM_X86_64};

/// A platform, with the name that Debian and OCI use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Platform {
    Amd64,
    Arm64,
}

impl Platform {
    /// All of them, sorted by name.
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// Returns Debian's and OCI's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Returns Rust's target.
    pub fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Returns the directory of Debian's libraries below `/usr/lib`.
    pub(crate) fn triplet(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu",
            Self::Arm64 => "aarch64-linux-gnu",
        }
    }

    /// Returns the number in an ELF header.
    pub(crate) fn machine(self) -> u16 {
        match self {
            Self::Amd64 => EM_X86_64,
            Self::Arm64 => EM_AARCH64,
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Platform {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match Self::ALL.into_iter().find(|platform| platform.name() == text) {
            Some(platform) => Ok(platform),
            None => bail!("unsupported platform {text}; use amd64 or arm64"),
        }
    }
}
