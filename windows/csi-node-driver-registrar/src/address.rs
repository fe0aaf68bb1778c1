//! The address of a gRPC server: a local socket, or loopback in tests.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::platform::{MAX_SOCKET_PATH, Platform};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Local(PathBuf),
    /// TCP on loopback, for tests on systems without local sockets.
    Tcp(SocketAddr),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadAddress {
    #[error("must be /PATH, unix:///PATH or unix:PATH")]
    Scheme,
    #[error("has no file name")]
    NoPath,
    #[error(
        "is too long for a socket: {length} bytes, at most {MAX_SOCKET_PATH}; mount the directory at a shorter path"
    )]
    TooLong { length: usize },
    #[error("contains a zero byte")]
    Zero,
    #[error("must be tcp://ADDRESS:PORT with a loopback address, such as tcp://127.0.0.1:10000")]
    Tcp,
}

impl Address {
    /// Parses `/PATH`, `unix://PATH`, `unix:PATH` or `tcp://ADDRESS:PORT`, and on Windows also `C:\PATH`. The path is
    /// not changed. The text of an error is the end of a sentence.
    pub(crate) fn parse(text: &str, platform: Platform) -> Result<Self, BadAddress> {
        if platform.is_full_path(text) {
            return Self::local(platform.path(text));
        }
        let (scheme, rest) = text.split_once(':').ok_or(BadAddress::Scheme)?;
        match scheme.to_ascii_lowercase().as_str() {
            "unix" => Self::local(platform.path(rest.strip_prefix("//").unwrap_or(rest))),
            "tcp" => {
                let address = rest.strip_prefix("//").and_then(|address| address.parse::<SocketAddr>().ok());
                address.filter(|address| address.ip().is_loopback()).map(Self::Tcp).ok_or(BadAddress::Tcp)
            }
            _ => Err(BadAddress::Scheme),
        }
    }

    pub(crate) fn local(path: PathBuf) -> Result<Self, BadAddress> {
        let bytes = path.as_os_str().as_encoded_bytes();
        match bytes.len() {
            0 => Err(BadAddress::NoPath),
            length if length > MAX_SOCKET_PATH => Err(BadAddress::TooLong { length }),
            _ if bytes.contains(&0) => Err(BadAddress::Zero),
            _ => Ok(Self::Local(path)),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn local(text: &str, platform: Platform) -> String {
        match Address::parse(text, platform) {
            Ok(Address::Local(path)) => path.to_str().unwrap().to_owned(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn driver_address_is_parsed_from_unix_url_or_full_path() {
        for (text, unix) in [
            ("/run/csi/socket", "/run/csi/socket"),
            ("/csi/csi.sock", "/csi/csi.sock"),
            ("unix:///csi/csi.sock", "/csi/csi.sock"),
            ("unix:/csi/csi.sock", "/csi/csi.sock"),
            ("UNIX:/csi/csi.sock", "/csi/csi.sock"),
            ("unix://csi/csi.sock", "csi/csi.sock"),
            ("unix:csi.sock", "csi.sock"),
        ] {
            assert_eq!(local(text, Platform::Unix), unix, "{text}");
        }
        for (text, windows) in [
            (r"unix://C:\\csi\\csi.sock", r"C:\csi\csi.sock"),
            (r"unix://C:\csi\csi.sock", r"C:\csi\csi.sock"),
            (r"unix:C:\csi\csi.sock", r"C:\csi\csi.sock"),
            (r"C:\csi\csi.sock", r"C:\csi\csi.sock"),
            ("unix:/csi/csi.sock", r"\csi\csi.sock"),
            ("/csi/csi.sock", r"\csi\csi.sock"),
            (
                r"unix://C:\\var\\lib\\kubelet\\plugins\\ebs.csi.aws.com\\csi.sock",
                r"C:\var\lib\kubelet\plugins\ebs.csi.aws.com\csi.sock",
            ),
        ] {
            assert_eq!(local(text, Platform::Windows), windows, "{text}");
        }
    }

    #[test]
    fn socket_path_over_107_bytes_is_rejected_with_its_length() {
        let path = |length: usize| format!("/{}", "ä".repeat((length - 1) / 2));
        assert!(Address::parse(&path(107), Platform::Unix).is_ok());
        let refused = Address::parse(&path(109), Platform::Unix);
        assert_eq!(refused, Err(BadAddress::TooLong { length: 109 }));
    }

    #[test]
    fn invalid_address_is_rejected() {
        for (text, refused) in [
            ("", BadAddress::Scheme),
            ("csi.sock", BadAddress::Scheme),
            ("dns:///csi", BadAddress::Scheme),
            (r"C:\csi\csi.sock", BadAddress::Scheme),
            ("unix:", BadAddress::NoPath),
            ("unix://", BadAddress::NoPath),
            ("/a\0b", BadAddress::Zero),
            ("tcp://0.0.0.0:1", BadAddress::Tcp),
            ("tcp://localhost:1", BadAddress::Tcp),
            ("tcp:127.0.0.1:1", BadAddress::Tcp),
        ] {
            assert_eq!(Address::parse(text, Platform::Unix), Err(refused), "{text}");
        }
    }

    #[test]
    fn tcp_is_accepted_on_loopback_only() {
        for platform in [Platform::Unix, Platform::Windows] {
            for text in ["tcp://127.0.0.1:10000", "tcp://[::1]:10000"] {
                assert_eq!(Address::parse(text, platform).unwrap().to_string(), text);
            }
            assert_eq!(Address::parse("tcp://192.0.2.1:10000", platform), Err(BadAddress::Tcp));
        }
    }

    proptest! {
        #[test]
        fn any_address_is_parsed_to_a_short_path_without_panic(text in "(unix:|unix://|/|tcp://|C:)?.{0,130}") {
            for platform in [Platform::Unix, Platform::Windows] {
                if let Ok(Address::Local(path)) = Address::parse(&text, platform) {
                    let length = path.as_os_str().len();
                    prop_assert!(0 < length && length <= MAX_SOCKET_PATH);
                }
            }
        }
    }
}
