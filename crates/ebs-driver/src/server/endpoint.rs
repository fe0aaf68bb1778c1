use std::fmt;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};

mod windows;

/// The maximum length, in bytes, of a path in a unix socket address (`sockaddr_un`), without the terminating zero.
pub const MAX_SOCKET_PATH: usize = 107;

/// An address on which to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket. The path is absolute, without `.` and `..`.
    Unix(PathBuf),
    /// TCP on loopback.
    Tcp(SocketAddr),
}

/// Why an endpoint is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("{0:?} is neither unix://PATH nor tcp://ADDRESS:PORT")]
    Scheme(String),
    #[error("{0:?} has no socket path; use unix:///PATH")]
    NoPath(String),
    #[error("the socket path {} has {length} bytes, but the kernel accepts at most {MAX_SOCKET_PATH}; use a shorter one", path.display())]
    TooLong { path: PathBuf, length: usize },
    #[error("{0:?} is not ADDRESS:PORT, such as 127.0.0.1:10000 or [::1]:10000")]
    Address(String),
    #[error("tcp://{0} is not a loopback address: CSI has no authentication, so only this machine may reach it")]
    NotLoopback(SocketAddr),
}

impl Endpoint {
    /// Parses `unix://PATH`, `unix:/PATH` or `tcp://ADDRESS:PORT`. The scheme is case-insensitive.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let scheme = || EndpointError::Scheme(text.to_owned());
        let (name, rest) = text.split_once(':').ok_or_else(scheme)?;
        match name.to_ascii_lowercase().as_str() {
            // On Windows, a path may have a drive, and either kind of separator.
            "unix" if cfg!(windows) => windows::unix(text, rest),
            "unix" if rest.starts_with('/') => unix(text, rest.strip_prefix("//").unwrap_or(rest)),
            "tcp" => tcp(rest.strip_prefix("//").ok_or_else(scheme)?),
            _ => Err(scheme()),
        }
    }
}

/// Joins host and path, and makes the result absolute: `tmp/csi.sock` becomes `/tmp/csi.sock`.
fn unix(text: &str, joined: &str) -> Result<Endpoint, EndpointError> {
    let mut path = PathBuf::from("/");
    for component in Path::new(joined).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => {
                path.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    if path.parent().is_none() || joined.ends_with('/') {
        return Err(EndpointError::NoPath(text.to_owned()));
    }
    short_enough(path)
}

fn short_enough(path: PathBuf) -> Result<Endpoint, EndpointError> {
    let length = path.as_os_str().len();
    if length > MAX_SOCKET_PATH { Err(EndpointError::TooLong { path, length }) } else { Ok(Endpoint::Unix(path)) }
}

fn tcp(rest: &str) -> Result<Endpoint, EndpointError> {
    let address = rest.strip_suffix('/').unwrap_or(rest);
    let numeric = address.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address: SocketAddr =
        numeric.as_deref().unwrap_or(address).parse().map_err(|_| EndpointError::Address(address.to_owned()))?;
    if address.ip().is_loopback() { Ok(Endpoint::Tcp(address)) } else { Err(EndpointError::NotLoopback(address)) }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The scheme is case-insensitive.
    #[test]
    fn endpoints_are_parsed_as_the_reference_driver_parses_them() {
        let rows = [
            ("unix:///csi/csi.sock", "unix:///csi/csi.sock"),
            ("unix://csi/csi.sock", "unix:///csi/csi.sock"),
            ("unix:/csi/csi.sock", "unix:///csi/csi.sock"),
            ("UNIX://tmp//a/../csi.sock", "unix:///tmp/csi.sock"),
            ("tcp://127.0.0.1:10000", "tcp://127.0.0.1:10000"),
            ("Tcp://127.0.0.1:10000/", "tcp://127.0.0.1:10000"),
            ("tcp://localhost:9", "tcp://127.0.0.1:9"),
            ("tcp://[::1]:9", "tcp://[::1]:9"),
        ];
        for (text, read) in rows {
            assert_eq!(Endpoint::parse(text).map(|e| e.to_string()).as_deref(), Ok(read), "{text}");
        }
    }

    #[test]
    fn socket_path_over_107_bytes_is_refused_with_the_limit() {
        let path = |length: usize| format!("unix:///{}", "x".repeat(length - 1));
        assert!(Endpoint::parse(&path(MAX_SOCKET_PATH)).is_ok());
        let error = Endpoint::parse(&path(MAX_SOCKET_PATH + 1)).expect_err("too long").to_string();
        assert!(error.contains("107") && error.contains("108"), "{error}");
    }

    proptest! {
        #[test]
        fn parsed_socket_path_is_absolute_and_parses_to_itself(text in "unix:/{1,3}[a-z./]{1,30}") {
            if let Ok(endpoint) = Endpoint::parse(&text) {
                let Endpoint::Unix(path) = &endpoint else { panic!("{endpoint}") };
                prop_assert!(path.is_absolute() && path.components().all(|c| c != Component::ParentDir));
                prop_assert_eq!(Endpoint::parse(&endpoint.to_string()), Ok(endpoint.clone()));
            }
        }
    }
}
