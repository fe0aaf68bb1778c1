//! Runs the SDK without a network: with a transport inside the process, on paused time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ebs_aws::{AwsEc2, Settings, Transport};
use ebs_ec2::{ErrorClass, PageRequest, VolumeId, Volumes};
use tokio::time::Instant;

use crate::server::{self, Reply, managed_volumes, settings};

pub(crate) async fn client(transport: Transport) -> AwsEc2 {
    let settings = Settings { transport: Some(transport), ..settings() };
    server::client("http://ec2.invalid", settings).await
}

fn response(reply: Reply) -> http::Response<Bytes> {
    let Reply::Say(status, body) = reply else { panic!("a plain reply") };
    http::Response::builder().status(status).body(Bytes::from(body)).unwrap()
}

const EMPTY: &str = "<DescribeVolumesResponse><volumeSet/></DescribeVolumesResponse>";

/// A lost reply is ambiguous.
#[tokio::test(start_paused = true)]
async fn timeouts_use_the_paused_clock() {
    let ec2 = client(Transport::answering(|_| std::future::pending())).await;
    let start = Instant::now();
    let error = ec2.delete_volume(&VolumeId::parse("vol-1").unwrap()).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Ambiguous, "{error}");
    assert!(error.to_string().contains("no reply in time; EC2 may have executed the call"), "{error}");
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(30) && took < Duration::from_secs(31), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn broken_connection_is_ambiguous_but_describes_are_retried() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let ec2 = client(Transport::answering(move |_| {
        let first = counted.fetch_add(1, Ordering::Relaxed) == 0;
        async move { if first { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(response(Reply::ok(EMPTY))) } }
    }))
    .await;
    ec2.describe_volumes(&managed_volumes(), &PageRequest::default()).await.unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    calls.store(0, Ordering::Relaxed);
    let error = ec2.delete_volume(&VolumeId::parse("vol-1").unwrap()).await.unwrap_err();
    assert_eq!((error.class, calls.load(Ordering::Relaxed)), (ErrorClass::Ambiguous, 1), "{error}");
}
