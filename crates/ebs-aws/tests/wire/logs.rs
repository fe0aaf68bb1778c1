//! Tests the log lines of calls.

use std::io::Write;
use std::sync::{Arc, Mutex};

use ebs_ec2::{ClusterNodes, HyperPodNode, VolumeId, Volumes};
use tracing::instrument::WithSubscriber;
use tracing_subscriber::EnvFilter;

use crate::server::{Reply, SECRET, TOKEN, Wire, config, settings};

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn logged(log_bodies: bool) -> String {
    let kept = Kept::default();
    let writer = kept.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("off,ebs_aws=trace"))
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    let replies = [
        Reply::error(400, "InvalidVolume.NotFound", "words-of-ec2"),
        Reply::ok(
            "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account>\
             <UserId>canary-user</UserId></GetCallerIdentityResult></GetCallerIdentityResponse>",
        ),
        Reply::ok(r#"{"NodeId":"i-0abc","VolumeId":"vol-1","DeviceName":"/dev/xvdba"}"#),
    ];
    let calls = async {
        let wire = Wire::configured(replies, settings(), |at| {
            let mut config = config(at);
            config.log_bodies = log_bodies;
            config
        })
        .await;
        let vol = VolumeId::parse("vol-1").unwrap();
        wire.ec2.delete_volume(&vol).await.unwrap_err();
        let node = HyperPodNode::parse("hyperpod-abc-i-0abc").unwrap();
        wire.ec2.attach_cluster_node_volume(&node, &vol).await.unwrap();
        assert_eq!(wire.requests()[0].headers["x-amz-security-token"], TOKEN, "the canary is in use");
    };
    calls.with_subscriber(subscriber).await;
    let bytes = kept.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn bodies_are_logged_if_enabled_except_those_of_sts_calls() {
    let text = logged(true).await;
    for word in ["Action=DeleteVolume", "words-of-ec2", "ClusterArn", "/dev/xvdba", "status=400"] {
        assert!(text.contains(word), "{word} is missing in {text}");
    }
    assert!(!text.contains("canary-user") && !text.contains("Action=GetCallerIdentity"), "{text}");
    let text = logged(false).await;
    for word in ["Action=", "words-of-ec2", "ClusterArn", "/dev/xvdba", "canary"] {
        assert!(!text.contains(word), "{word} is in {text}");
    }
}

#[tokio::test]
async fn log_contains_no_secret() {
    for log_bodies in [false, true] {
        let text = logged(log_bodies).await;
        assert!(!text.is_empty());
        for secret in [SECRET, TOKEN, "Signature=", "authorization", "AKIATEST"] {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
    }
}
