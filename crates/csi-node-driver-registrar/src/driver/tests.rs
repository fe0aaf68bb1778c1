use tokio::net::TcpListener;

use super::*;

/// The registrar waits 30 s for a driver that is not there, and then says where it looked and why that failed.
#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_driver_that_is_not_there_is_waited_for_thirty_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let address = Address::local(dir.path().join("csi.sock")).unwrap();
    let began = Instant::now();
    let error = Driver::connect(address.clone()).await.unwrap_err();
    assert!((PATIENCE..PATIENCE + RETRY).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert!(matches!(error, DriverError::NotThere { cause: Attempt::Connect(_), .. }), "{error:?}");
}

/// A listener that nobody serves yet is no driver yet: it is waited for as one that is not there.
#[tokio::test(start_paused = true)]
async fn a_listener_that_says_nothing_is_no_driver_yet() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap());
    let began = Instant::now();
    let error = Driver::connect(address).await.unwrap_err();
    assert!(began.elapsed() >= PATIENCE, "{:?}", began.elapsed());
    assert!(matches!(error, DriverError::NotThere { cause: Attempt::Silent, .. }), "{error:?}");
}

#[tokio::test]
async fn whoever_hangs_up_at_once_is_tried_again() {
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
