//! The name of a CSI driver. It becomes part of a file name.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DriverName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadDriverName {
    #[error("the driver's name is empty")]
    Empty,
    #[error("the driver's name {0:?} cannot be part of a file name")]
    NoFileName(String),
    #[error("the driver's name {0:?} begins with a dot, and the kubelet ignores such sockets")]
    Hidden(String),
}

impl DriverName {
    /// Checks that the name is valid as a file name, without separators, and is not hidden. CSI has more rules, which
    /// the kubelet checks.
    pub(crate) fn new(name: String) -> Result<Self, BadDriverName> {
        let is_in_no_file_name =
            |c: char| c.is_control() || matches!(c, '/' | '\\' | ':' | '<' | '>' | '"' | '|' | '?' | '*');
        match name {
            name if name.is_empty() => Err(BadDriverName::Empty),
            name if name.contains(is_in_no_file_name) => Err(BadDriverName::NoFileName(name)),
            name if name.starts_with('.') => Err(BadDriverName::Hidden(name)),
            name => Ok(Self(name)),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn socket_file(&self) -> String {
        format!("{}-reg.sock", self.0)
    }
}

impl fmt::Display for DriverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_name_that_is_not_a_file_name_is_rejected() {
        let name = DriverName::new("ebs.csi.aws.com".to_owned()).unwrap();
        assert_eq!(name.socket_file(), "ebs.csi.aws.com-reg.sock");
        assert_eq!(DriverName::new(String::new()), Err(BadDriverName::Empty));
        for bad in ["../x", "a/b", r"a\b", "c:d", "a\0", "a\nb", "a*"] {
            assert_eq!(DriverName::new(bad.to_owned()), Err(BadDriverName::NoFileName(bad.to_owned())));
        }
        for bad in [".", "..", ".hidden"] {
            assert_eq!(DriverName::new(bad.to_owned()), Err(BadDriverName::Hidden(bad.to_owned())));
        }
    }
}
