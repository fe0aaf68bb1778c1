use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::*;
use crate::driver_name::DriverName;

fn routes() -> Routes {
    let name = DriverName::new("d.csi.example".to_owned()).unwrap();
    crate::registration::routes(&name, "/x", mpsc::channel(1).0)
}

/// Returns how long a connection that has sent `sent` stays open, or `None` if that is more than an hour.
async fn ended(server: &mut Server, sent: &[u8]) -> Option<Duration> {
    let Address::Tcp(address) = *server.address() else { panic!("not over TCP") };
    let began = Instant::now();
    let client = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        let mut bytes = [0; 1024];
        while matches!(stream.read(&mut bytes).await, Ok(1..)) {}
        began.elapsed()
    };
    tokio::select! {
        ended = timeout(Duration::from_hours(1), client) => ended.ok(),
        served = server.serve() => panic!("{served:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn connection_without_preface_is_closed_after_120_seconds() {
    let loopback = Address::Tcp("127.0.0.1:0".parse().unwrap());
    let mut server = Server::bind(&loopback, routes()).await.unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    for silent in [&[][..], &preface[..23]] {
        let ended = ended(&mut server, silent).await.expect("it must be closed");
        assert!(ended >= SILENCE, "{ended:?}");
    }
    assert_eq!(ended(&mut server, &[&preface[..], &settings].concat()).await, None);
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn registrar_fails_if_its_socket_is_not_restored_in_30_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d-reg.sock");
    let mut server = Server::bind(&Address::Local(path), routes()).await.unwrap();
    dir.close().unwrap();
    let began = Instant::now();
    let error = server.serve().await.map(|never| match never {}).unwrap_err();
    assert!(matches!(error, ServeError::Vanished(SocketError::NoDirectory { .. })), "{error:?}");
    assert!((PUT_BACK_WITHIN..PUT_BACK_WITHIN + 3 * LOOK).contains(&began.elapsed()), "{:?}", began.elapsed());
}
