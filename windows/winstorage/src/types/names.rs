//! Names of services, iSCSI targets and portals. Their syntax is checked before they become part of a query.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("invalid service name {0:?}; use 1 to 256 characters without / and \\")]
    Service(String),
    #[error("invalid iSCSI name {0:?}; use iqn.…, eui.… or naa.… of at most 223 characters")]
    Iqn(String),
    #[error("invalid target portal address {0:?}; use an IP address or a host name")]
    Address(String),
    #[error("invalid target portal port {0}; use at most 65535")]
    Port(u32),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceName(String);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Iqn(String);

/// The address of an iSCSI portal. If a client sends port 0, the port is 3260.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortalAddress {
    address: String,
    port: u16,
}

const ISCSI_PORT: u16 = 3260;
const LONGEST_SERVICE: usize = 256;
const LONGEST_IQN: usize = 223;
const LONGEST_HOST: usize = 253;

impl ServiceName {
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let length = text.encode_utf16().count();
        let is_name = (1..=LONGEST_SERVICE).contains(&length)
            && !text.chars().any(|char| char.is_control() || char == '/' || char == '\\');
        is_name.then(|| Self(text.to_owned())).ok_or_else(|| NameError::Service(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Iqn {
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let lower = text.to_ascii_lowercase();
        let has_kind = ["iqn.", "eui.", "naa."].iter().any(|kind| lower.starts_with(kind) && lower.len() > kind.len());
        let is_plain = |char: char| char.is_alphanumeric() || matches!(char, '.' | '-' | ':' | '_');
        let is_name = has_kind && text.len() <= LONGEST_IQN && text.chars().all(is_plain);
        is_name.then(|| Self(text.to_owned())).ok_or_else(|| NameError::Iqn(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PortalAddress {
    /// Rejects a port that the reference would truncate to 16 bits.
    pub fn parse(address: &str, port: u32) -> Result<Self, NameError> {
        let is_ip = address.parse::<std::net::IpAddr>().is_ok();
        let is_label = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        let is_host = address.len() <= LONGEST_HOST && address.split('.').all(is_label);
        if !is_ip && !is_host {
            return Err(NameError::Address(address.to_owned()));
        }
        let port = u16::try_from(port).map_err(|_| NameError::Port(port))?;
        Ok(Self { address: address.to_owned(), port: if port == 0 { ISCSI_PORT } else { port } })
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Iqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for PortalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.address, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_are_rejected_before_any_query() {
        assert!(ServiceName::parse("MSiSCSI").is_ok());
        assert!(ServiceName::parse("A service's name").is_ok());
        for name in ["", "a/b", r"a\b", "a\nb", &"x".repeat(257)] {
            assert!(ServiceName::parse(name).is_err(), "{name:?}");
        }
        assert!(Iqn::parse("iqn.1991-05.com.microsoft:target-1").is_ok());
        for name in ["", "iqn.", "target", "iqn.x'y", "iqn.a b", &format!("iqn.{}", "x".repeat(230))] {
            assert!(Iqn::parse(name).is_err(), "{name:?}");
        }
        assert_eq!(PortalAddress::parse("10.0.0.1", 0).unwrap().to_string(), "10.0.0.1:3260");
        assert!(PortalAddress::parse("fe80::1", 3260).is_ok() && PortalAddress::parse("host-1.example", 1).is_ok());
        for address in ["", "a b", "x'--", "a..b", r"\\host"] {
            assert!(PortalAddress::parse(address, 1).is_err(), "{address:?}");
        }
    }

    #[test]
    fn port_above_65535_is_rejected() {
        let refused = PortalAddress::parse("10.0.0.1", 65_536 + 3260).unwrap_err();
        assert_eq!(refused, NameError::Port(68_796));
    }
}
