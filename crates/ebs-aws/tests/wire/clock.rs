//! Tests on a machine with a wrong clock. EC2 refuses a signature whose time differs by more than five minutes from
//! EC2's own time, which each EC2 reply contains.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use aws_smithy_types::date_time::{DateTime, Format};
use bytes::Bytes;
use ebs_aws::{AwsEc2, Transport};
use ebs_ec2::{ClusterNodes, ErrorClass, HyperPodNode, PageRequest, VolumeId, Volumes, Zones};

use crate::in_process::client;
use crate::server::{CHILD, managed_volumes, printed_by_child};

const MAX_SKEW: Duration = Duration::from_mins(5);

/// A simulated AWS with its own time. It checks only the times of signatures.
#[derive(Debug, Clone, Default)]
struct Aws {
    /// How many seconds the clock of this AWS is ahead of this machine's clock.
    ahead: Arc<AtomicI64>,
    asked: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
}

impl Aws {
    fn ahead_by(seconds: i64) -> Self {
        let aws = Self::default();
        aws.ahead.store(seconds, Ordering::SeqCst);
        aws
    }

    fn now(&self) -> SystemTime {
        let ahead = self.ahead.load(Ordering::SeqCst);
        let by = Duration::from_secs(ahead.unsigned_abs());
        if ahead < 0 { SystemTime::now() - by } else { SystemTime::now() + by }
    }

    fn answer(&self, request: &http::Request<Bytes>) -> http::Response<Bytes> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let now = self.now();
        let signed = signed_at(request);
        let apart = now.duration_since(signed).unwrap_or_else(|early| early.duration());
        let body = std::str::from_utf8(request.body()).unwrap();
        let (status, reply) = if apart > MAX_SKEW {
            self.refused.fetch_add(1, Ordering::SeqCst);
            (401, refusal(body))
        } else {
            (if body.contains("DryRun=true") { 412 } else { 200 }, reply(body).to_owned())
        };
        let date = DateTime::from(now).fmt(Format::HttpDate).unwrap();
        http::Response::builder().status(status).header("date", date).body(Bytes::from(reply)).unwrap()
    }

    fn transport(&self) -> Transport {
        let aws = self.clone();
        Transport::answering(move |request: http::Request<Bytes>| {
            let answer = aws.answer(&request);
            async move { Ok(answer) }
        })
    }

    /// Returns how many requests arrived since this method was last called, and how many of them were refused.
    fn take_counts(&self) -> (usize, usize) {
        (self.asked.swap(0, Ordering::SeqCst), self.refused.swap(0, Ordering::SeqCst))
    }
}

fn signed_at(request: &http::Request<Bytes>) -> SystemTime {
    let stamp = request.headers()["x-amz-date"].to_str().unwrap();
    let part = |range: std::ops::Range<usize>| &stamp[range];
    let text =
        format!("{}-{}-{}T{}:{}:{}Z", part(0..4), part(4..6), part(6..8), part(9..11), part(11..13), part(13..15));
    SystemTime::try_from(DateTime::from_str(&text, Format::DateTime).unwrap()).unwrap()
}

fn refusal(body: &str) -> String {
    if body.contains("GetCallerIdentity") {
        let code = "<Code>SignatureDoesNotMatch</Code><Message>Signature expired</Message>";
        format!("<ErrorResponse><Error><Type>Sender</Type>{code}</Error><RequestId>r</RequestId></ErrorResponse>")
    } else if body.starts_with('{') {
        r#"{"__type":"InvalidSignatureException","message":"Signature expired"}"#.to_owned()
    } else {
        let code = "<Code>AuthFailure</Code><Message>not able to validate</Message>";
        format!("<Response><Errors><Error>{code}</Error></Errors><RequestID>r</RequestID></Response>")
    }
}

fn reply(body: &str) -> &'static str {
    if body.contains("GetCallerIdentity") {
        "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account></GetCallerIdentityResult>\
         </GetCallerIdentityResponse>"
    } else if body.starts_with('{') {
        r#"{"NodeId":"i-0abc","VolumeId":"vol-1","DeviceName":"/dev/xvdba"}"#
    } else if body.contains("DryRun=true") {
        "<Response><Errors><Error><Code>DryRunOperation</Code><Message>would have</Message></Error></Errors>\
         <RequestID>r</RequestID></Response>"
    } else if body.contains("DeleteVolume") {
        "<DeleteVolumeResponse><return>true</return></DeleteVolumeResponse>"
    } else {
        "<DescribeVolumesResponse><volumeSet/></DescribeVolumesResponse>"
    }
}

fn vol() -> VolumeId {
    VolumeId::parse("vol-1").unwrap()
}

async fn describe(ec2: &AwsEc2) -> ebs_ec2::Result<()> {
    ec2.describe_volumes(&managed_volumes(), &PageRequest::default()).await.map(drop)
}

/// A mutating call has only one attempt, so its signature must have the right time. The clock may be ahead or behind.
#[tokio::test(start_paused = true)]
async fn mutation_is_signed_with_the_time_of_an_earlier_reply() {
    for ahead in [600, -600, 86_400] {
        let aws = Aws::ahead_by(ahead);
        let ec2 = client(aws.transport()).await;
        let error = ec2.check_access().await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Unauthenticated, "{ahead}: {error}");
        ec2.delete_volume(&vol()).await.unwrap();
        ec2.check_access().await.unwrap();
        assert_eq!(aws.take_counts(), (3, 1), "{ahead}");
    }
}

#[tokio::test(start_paused = true)]
async fn describe_reply_corrects_the_signing_time_of_later_calls() {
    let aws = Aws::ahead_by(600);
    let ec2 = client(aws.transport()).await;
    for _ in 0..3 {
        describe(&ec2).await.unwrap();
    }
    ec2.delete_volume(&vol()).await.unwrap();
    // All clones of a client share the corrected time.
    ec2.clone().delete_volume(&vol()).await.unwrap();
    assert_eq!(aws.take_counts(), (6, 1));
}

/// If the clock's error changes, the client adapts within one describe. When the clock becomes right, one call fails
/// first: because the clocks agree, the client blames the key for the refusal.
#[tokio::test(start_paused = true)]
async fn client_adapts_when_its_clock_error_changes() {
    let aws = Aws::ahead_by(600);
    let ec2 = client(aws.transport()).await;
    describe(&ec2).await.unwrap();
    aws.ahead.store(-1200, Ordering::SeqCst);
    describe(&ec2).await.unwrap();
    ec2.delete_volume(&vol()).await.unwrap();
    aws.ahead.store(0, Ordering::SeqCst);
    assert_eq!(describe(&ec2).await.unwrap_err().class, ErrorClass::Unauthenticated);
    ec2.delete_volume(&vol()).await.unwrap();
    describe(&ec2).await.unwrap();
    assert_eq!(aws.take_counts().1, 3, "once for each change");
}

/// The client retries an STS call that failed because of its signing time, but never a SageMaker call.
#[tokio::test(start_paused = true)]
async fn sagemaker_and_sts_remember_the_clock_skew() {
    let aws = Aws::ahead_by(600);
    let ec2 = client(aws.transport()).await;
    let node = HyperPodNode::parse("hyperpod-abc-i-0abc").unwrap();
    let error = ec2.attach_cluster_node_volume(&node, &vol()).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unauthenticated, "{error}");
    assert_eq!(aws.take_counts(), (3, 2), "STS was asked again at once, SageMaker never is");
    ec2.attach_cluster_node_volume(&node, &vol()).await.unwrap();
    assert_eq!(aws.take_counts(), (1, 0));
}

/// The child process that another test starts, not a test itself.
#[tokio::test(start_paused = true)]
async fn child_does_not_correct_clock_skew() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let aws = Aws::ahead_by(600);
    let ec2 = client(aws.transport()).await;
    describe(&ec2).await.unwrap_err();
    ec2.delete_volume(&vol()).await.unwrap_err();
    assert_eq!(aws.take_counts(), (2, 2));
}

#[test]
fn clock_skew_correction_can_be_disabled() {
    let profile = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(profile.path(), "[default]\ndisable_clock_skew_correction = true\n").unwrap();
    let profile = profile.path().to_str().unwrap();
    for disabled in [("AWS_DISABLE_CLOCK_SKEW_CORRECTION", "true"), ("AWS_CONFIG_FILE", profile)] {
        printed_by_child("clock::child_does_not_correct_clock_skew", "1", &[disabled]);
    }
}
