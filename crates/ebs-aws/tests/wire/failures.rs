//! How the client classifies failures: whether it sent a request, what the request may have done, and the message.

use std::error::Error;
use std::time::Duration;

use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use ebs_aws::{AwsEc2, Settings};
use ebs_ec2::{Ec2Error, ErrorClass, Instances, PageRequest, Volumes};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::fixtures::{MUTATIONS, Objects, call, vol};
use crate::server::{Reply, SECRET, TOKEN, Wire, client, managed_volumes, settings};

async fn every_mutation(ec2: &AwsEc2) -> Vec<Ec2Error> {
    let mut errors = Vec::new();
    for action in MUTATIONS {
        errors.push(call(ec2, action, &Objects::strange()).await.unwrap_err());
    }
    errors
}

/// Checks that the client sends each mutation once, and that each fails with this class.
async fn mutations_end(reply: Reply, class: ErrorClass) {
    let wire = Wire::answering([reply]).await;
    let errors = every_mutation(&wire.ec2).await;
    for error in &errors {
        assert_eq!(error.class, class, "{error}");
    }
    assert_eq!(wire.requests().len(), errors.len(), "one request for one call");
}

#[tokio::test]
async fn mutating_call_is_sent_only_once_whatever_the_reply() {
    mutations_end(Reply::error(500, "InternalError", "x"), ErrorClass::Ambiguous).await;
    mutations_end(Reply::error(503, "Unavailable", "x"), ErrorClass::Ambiguous).await;
    mutations_end(Reply::error(503, "RequestLimitExceeded", "x"), ErrorClass::Throttled).await;
    mutations_end(Reply::error(500, "InsufficientVolumeCapacity", "x"), ErrorClass::InsufficientCapacity).await;
    mutations_end(Reply::Say(502, "<html>Bad Gateway</html>".into()), ErrorClass::Ambiguous).await;
}

fn chain(error: &Ec2Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[tokio::test]
async fn refused_connection_or_unresolved_name_means_not_sent() {
    // Nothing listens on this port any more.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    // The resolver itself rejects a label of 64 characters, so nothing leaves this machine.
    let unresolved = format!("{}.example", "x".repeat(64));
    for (host, cause) in [(address.to_string(), "Connection refused"), (unresolved, "")] {
        let ec2 = client(&format!("http://{host}"), settings()).await;
        for error in every_mutation(&ec2).await {
            assert_eq!(error.class, ErrorClass::NotSent, "{error}");
            assert!(chain(&error).contains(cause), "{}", chain(&error));
        }
        let error = ec2.describe_volumes(&managed_volumes(), &PageRequest::default()).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::NotSent);
    }
}

#[tokio::test]
async fn server_without_tls_is_reported_as_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    };
    let ec2 = client(&format!("https://{address}"), settings()).await;
    let id = vol("vol-1");
    let (error, ()) = tokio::join!(ec2.delete_volume(&id), server);
    let error = error.unwrap_err();
    assert_eq!(error.class, ErrorClass::NotSent, "{}", chain(&error));
}

#[derive(Debug)]
struct Failing(fn() -> CredentialsError);

impl ProvideCredentials for Failing {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(Err((self.0)()))
    }
}

#[tokio::test]
async fn missing_credentials_are_reported_and_nothing_is_sent() {
    let wire_with = async |provider: Failing| {
        let credentials = Some(SharedCredentialsProvider::new(provider));
        Wire::with([Reply::ok("")], Settings { credentials, ..Settings::default() }).await
    };
    let wire = wire_with(Failing(|| CredentialsError::not_loaded("no providers"))).await;
    let error = wire.ec2.delete_volume(&vol("vol-1")).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unauthenticated, "{}", chain(&error));
    assert!(error.to_string().contains("no source returned usable credentials, so nothing was sent"), "{error}");
    assert!(wire.requests().is_empty());

    let slow = Failing(|| CredentialsError::provider_timed_out(Duration::from_secs(5)));
    let wire = wire_with(slow).await;
    let error = wire.ec2.delete_volume(&vol("vol-1")).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::NotSent, "{}", chain(&error));
    assert!(wire.requests().is_empty());
}

/// A describe has three attempts. The client never retries a throttle or a refusal.
#[tokio::test]
async fn describe_is_retried_after_server_errors_but_not_throttles() {
    let fine = Reply::ok("<DescribeVolumesResponse><volumeSet/></DescribeVolumesResponse>");
    let describe = async |wire: &Wire| wire.ec2.describe_volumes(&managed_volumes(), &PageRequest::default()).await;

    let broken = Reply::error(500, "InternalError", "x");
    let wire = Wire::answering([broken.clone(), broken.clone(), fine.clone()]).await;
    describe(&wire).await.unwrap();
    assert_eq!(wire.requests().len(), 3);

    let wire = Wire::answering([broken.clone(), broken.clone(), broken, fine.clone()]).await;
    assert_eq!(describe(&wire).await.unwrap_err().class, ErrorClass::Ambiguous);
    assert_eq!(wire.requests().len(), 3, "three attempts are the limit");

    for (status, code, class) in
        [(503, "RequestLimitExceeded", ErrorClass::Throttled), (400, "SomethingNew", ErrorClass::Other)]
    {
        let wire = Wire::answering([Reply::error(status, code, "no"), fine.clone()]).await;
        assert_eq!(describe(&wire).await.unwrap_err().class, class);
        assert_eq!(wire.requests().len(), 1, "{code}");
    }
}

#[tokio::test]
async fn error_contains_ec2_code_message_and_request_id() {
    let wire =
        Wire::answering([Reply::error(400, "InvalidVolume.NotFound", "The volume 'vol-1' does not exist.")]).await;
    let error = wire.ec2.delete_volume(&vol("vol-1")).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::VolumeNotFound);
    assert_eq!(error.code.as_deref(), Some("InvalidVolume.NotFound"));
    assert_eq!(
        error.to_string(),
        "DeleteVolume: InvalidVolume.NotFound: The volume 'vol-1' does not exist. \
         (request id req-of-InvalidVolume.NotFound)"
    );
}

#[tokio::test]
async fn unknown_instance_type_is_not_an_error() {
    let wire = Wire::answering([Reply::error(400, "InvalidInstanceType", "do not exist: [x9.huge]")]).await;
    assert_eq!(wire.ec2.describe_instance_type("x9.huge").await.unwrap(), None);
}

#[tokio::test]
async fn error_contains_no_secret() {
    let replies = [Reply::error(403, "AuthFailure", "not able to validate"), Reply::Say(200, "no XML".into())];
    for reply in replies {
        let wire = Wire::answering([reply]).await;
        for error in every_mutation(&wire.ec2).await {
            let everything = format!("{error:?} {}", chain(&error));
            assert!(!everything.contains(SECRET) && !everything.contains(TOKEN), "{everything}");
        }
        let sent = wire.requests().remove(0);
        assert_eq!(sent.headers["x-amz-security-token"], TOKEN, "the canary is in use");
        assert!(!format!("{:?}", wire.ec2).contains(SECRET));
    }
}
