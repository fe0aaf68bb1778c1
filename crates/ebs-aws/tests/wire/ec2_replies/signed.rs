//! Requests with hand-made signatures, which have a wrong time or a wrong secret.

use std::time::{Duration, SystemTime};

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use bytes::Bytes;
use ebs_sim::engine::{Engine, EngineConfig};
use ebs_sim::{AccessKey, Ec2Service};
use http::Request;
use sha2::{Digest, Sha256};

use super::script::{Said, said};
use crate::signature::sign;

const SECRET: &str = "the-right-secret";
const BODY: &str = "Action=DescribeVolumes&Version=2016-11-15";

/// Sends requests with times that EC2 accepts, and with times that are more than 5 min early or late. Returns the last
/// reply.
pub(super) async fn with_a_clock_that_is_wrong() -> Said {
    let (now, too_much) = (SystemTime::now(), Duration::from_secs(303));
    assert_eq!(asked(now, SECRET).await.status, 200);
    assert_eq!(asked(now - Duration::from_secs(280), SECRET).await.status, 200);
    let early = asked(now + too_much, SECRET).await;
    let late = asked(now - too_much, SECRET).await;
    assert_eq!((early.status, &early.text), (late.status, &late.text));
    late
}

pub(super) async fn with_another_secret() -> Said {
    asked(SystemTime::now(), "another-secret").await
}

async fn asked(at: SystemTime, secret: &str) -> Said {
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    let service = Ec2Service::new(engine).with_access_key(AccessKey::parse(&format!("AKIATEST:{SECRET}")).unwrap());
    let stamp = DateTime::from_secs(DateTime::from(at).secs()).fmt(Format::DateTime).unwrap().replace(['-', ':'], "");
    let scope = format!("{}/us-west-2/ec2/aws4_request", &stamp[..8]);
    let canonical = format!(
        "POST\n/\n\nhost:ec2.invalid\nx-amz-date:{stamp}\n\nhost;x-amz-date\n{}",
        hex::encode(Sha256::digest(BODY))
    );
    let signature = sign(secret, &stamp, &scope, &canonical);
    let request = Request::post("/")
        .header("host", "ec2.invalid")
        .header("x-amz-date", &stamp)
        .header(
            "authorization",
            format!(
                "AWS4-HMAC-SHA256 Credential=AKIATEST/{scope}, SignedHeaders=host;x-amz-date, Signature={signature}"
            ),
        )
        .body(Bytes::from_static(BODY.as_bytes()))
        .unwrap();
    said(service.answer(request).await)
}
