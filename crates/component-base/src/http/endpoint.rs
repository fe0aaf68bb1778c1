//! The listen address.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

/// A TCP listen address as users write it: `host:port`, or `:port` for all addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpEndpoint(String);

/// Reports an invalid listen address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a listen address; use host:port, or :port for all addresses")]
pub struct BadHttpEndpoint(String);

impl std::str::FromStr for HttpEndpoint {
    type Err = BadHttpEndpoint;

    /// Checks only the syntax. The host name is resolved when the listener starts.
    fn from_str(text: &str) -> Result<Self, BadHttpEndpoint> {
        let has_port = text.rsplit_once(':').is_some_and(|(host, port)| {
            port.parse::<u16>().is_ok() && (!host.contains(':') || (host.starts_with('[') && host.ends_with(']')))
        });
        if has_port { Ok(Self(text.to_owned())) } else { Err(BadHttpEndpoint(text.to_owned())) }
    }
}

impl HttpEndpoint {
    /// Binds the address. `:port` binds both address families where the machine has both.
    pub async fn bind(&self) -> io::Result<TcpListener> {
        let Some(port) = self.0.strip_prefix(':') else { return TcpListener::bind(&self.0).await };
        match port.parse().map_err(io::Error::other).and_then(both_families) {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(format!("0.0.0.0:{port}")).await,
        }
    }
}

/// Binds IPv6 and accepts IPv4 clients too, which a Windows listener does not do by default.
fn both_families(port: u16) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, None)?;
    socket.set_only_v6(false)?;
    // On Windows, this option would let another program take over the port.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
    socket.listen(128)?;
    TcpListener::from_std(socket.into())
}

impl std::fmt::Display for HttpEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_without_port_is_rejected() {
        for good in [":3301", "0.0.0.0:3302", "localhost:80", "[::1]:80"] {
            assert!(good.parse::<HttpEndpoint>().is_ok(), "{good}");
        }
        for bad in ["", "3301", "localhost", "localhost:", "localhost:http", "::1:80", "0.0.0.0:70000"] {
            assert!(bad.parse::<HttpEndpoint>().is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn endpoint_without_host_also_listens_on_ipv4() {
        let listener = ":0".parse::<HttpEndpoint>().unwrap().bind().await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("a listener on all addresses");
    }
}
