use tokio::net::TcpListener;

use super::*;

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn registrar_waits_thirty_seconds_for_a_missing_driver() {
    let dir = tempfile::tempdir().unwrap();
    let address = Address::local(dir.path().join("csi.sock")).unwrap();
    let began = Instant::now();
    let error = Driver::connect(address.clone()).await.unwrap_err();
    assert!((PATIENCE..PATIENCE + RETRY).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert!(matches!(error, DriverError::NotThere { cause: Attempt::Connect(_), .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn silent_listener_is_not_accepted_as_a_driver() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let began = Instant::now();
    let error = Driver::connect(address).await.unwrap_err();
    assert!(began.elapsed() >= PATIENCE, "{:?}", began.elapsed());
    assert!(matches!(error, DriverError::NotThere { cause: Attempt::Silent, .. }), "{error:?}");
}

#[tokio::test]
async fn connection_closed_by_the_driver_is_retried() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let hang_up_twice = async {
        for _ in 0..2 {
            drop(listener.accept().await);
        }
    };
    tokio::select! {
        connected = Driver::connect(address) => panic!("{connected:?}"),
        () = hang_up_twice => {}
    }
}
