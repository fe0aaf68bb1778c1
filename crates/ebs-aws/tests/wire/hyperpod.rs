//! HyperPod nodes need two signed SageMaker calls, and one STS call per process.

use ebs_ec2::{Action, ClusterNodes, DeviceName, Ec2Error, ErrorClass, HyperPodNode, VolumeId};

use crate::server::{Reply, Request, SECRET, TOKEN, Wire};
use crate::signature;

const ARN: &str = "arn:aws:sagemaker:us-west-2:123456789012:cluster/my-big-cluster";

fn node() -> HyperPodNode {
    HyperPodNode::parse("hyperpod-my-big-cluster-i-0abc").unwrap()
}

fn vol() -> VolumeId {
    VolumeId::parse("vol-1").unwrap()
}

fn account(id: &str) -> Reply {
    Reply::ok(format!(
        "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><GetCallerIdentityResult>\
         <Arn>arn:aws:sts::{id}:assumed-role/r/s</Arn><UserId>U</UserId><Account>{id}</Account>\
         </GetCallerIdentityResult><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata>\
         </GetCallerIdentityResponse>"
    ))
}

pub(crate) fn known() -> Reply {
    account("123456789012")
}

fn attached() -> Reply {
    let body = format!(
        r#"{{"ClusterArn":"{ARN}","NodeId":"i-0abc","VolumeId":"vol-1","AttachTime":1.7E9,"Status":"attaching","DeviceName":"/dev/xvdba"}}"#
    );
    Reply::SayWith(200, vec![("date", "Sun, 06 Nov 1994 08:49:37 GMT".to_owned())], body)
}

fn refused(message: &str) -> Reply {
    let body = format!(r#"{{"__type":"ValidationException","message":"{message}"}}"#);
    Reply::SayWith(400, vec![("x-amzn-requestid", "req-sm".to_owned())], body)
}

fn is_whole(request: &Request, target: &str) {
    assert_eq!((request.method.as_str(), request.uri.path(), request.uri.query()), ("POST", "/", None));
    assert_eq!(request.headers["content-type"], "application/x-amz-json-1.1");
    assert_eq!(request.headers["x-amz-target"], target);
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body, serde_json::json!({"ClusterArn": ARN, "NodeId": "i-0abc", "VolumeId": "vol-1"}));
    let agent = request.headers["user-agent"].to_str().unwrap();
    assert!(agent.contains("exec-env/aws-ebs-csi-driver-v1.2.3-helm"), "{agent}");
    assert_eq!(request.headers["x-amz-security-token"], TOKEN);
    signature::check(request, "us-west-2", "sagemaker");
}

/// The call contains only the ARN, the node and the volume. The device name comes from the reply.
#[tokio::test]
async fn attach_is_one_signed_call_after_an_account_lookup() {
    let wire = Wire::answering([known(), attached()]).await;
    let begun = wire.ec2.attach_cluster_node_volume(&node(), &vol()).await.unwrap();
    let said_at = begun.said_at.and_then(|date| date.duration_since(std::time::SystemTime::UNIX_EPOCH).ok());
    assert_eq!((begun.device, said_at.map(|d| d.as_secs())), (DeviceName::new("/dev/xvdba"), Some(784_111_777)));
    let requests = wire.requests();
    assert_eq!(requests.len(), 2);
    let asked: Vec<_> = requests[0].form.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(asked, [("Action", "GetCallerIdentity"), ("Version", "2011-06-15")]);
    signature::check(&requests[0], "us-west-2", "sts");
    is_whole(&requests[1], "SageMaker.AttachClusterNodeVolume");
    let seen = wire.seen.0.lock().unwrap().clone();
    assert_eq!(seen, [(Action::GetCallerIdentity, None), (Action::AttachClusterNodeVolume, None)]);
}

#[tokio::test]
async fn detach_is_one_signed_call_and_the_account_is_cached() {
    let wire = Wire::answering([known(), attached()]).await;
    wire.ec2.detach_cluster_node_volume(&node(), &vol()).await.unwrap();
    wire.ec2.detach_cluster_node_volume(&node(), &vol()).await.unwrap();
    let other = wire.ec2.clone();
    other.attach_cluster_node_volume(&node(), &vol()).await.unwrap();
    let requests = wire.requests();
    assert_eq!(requests.len(), 4, "one question for the account, three calls");
    is_whole(&requests[1], "SageMaker.DetachClusterNodeVolume");
    is_whole(&requests[2], "SageMaker.DetachClusterNodeVolume");
    is_whole(&requests[3], "SageMaker.AttachClusterNodeVolume");
}

#[tokio::test]
async fn concurrent_callers_share_the_account_lookup() {
    let wire = Wire::answering([known(), attached()]).await;
    let (node, vol) = (node(), vol());
    let attach = || wire.ec2.attach_cluster_node_volume(&node, &vol);
    let (a, b, c) = tokio::join!(attach(), attach(), attach());
    assert!(a.is_ok() && b.is_ok() && c.is_ok(), "{a:?} {b:?} {c:?}");
    let questions = wire.requests().iter().filter(|r| !r.form.is_empty()).count();
    assert_eq!(questions, 1);
}

async fn attach_fails(replies: impl IntoIterator<Item = Reply>) -> Ec2Error {
    Wire::answering(replies).await.ec2.attach_cluster_node_volume(&node(), &vol()).await.unwrap_err()
}

async fn detach_fails(reply: Reply) -> Ec2Error {
    Wire::answering([known(), reply]).await.ec2.detach_cluster_node_volume(&node(), &vol()).await.unwrap_err()
}

#[tokio::test]
async fn failed_account_lookup_is_retried_by_the_next_call() {
    let denied = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>no</Message></Error>\
                  <RequestId>req-sts</RequestId></ErrorResponse>";
    let replies = [Reply::Say(403, denied.into()), known(), attached()];
    let wire = Wire::answering(replies).await;
    let error = wire.ec2.attach_cluster_node_volume(&node(), &vol()).await.unwrap_err();
    assert_eq!((error.action, error.class), (Action::GetCallerIdentity, ErrorClass::Unauthorized), "{error}");
    assert_eq!(error.request_id.as_deref(), Some("req-sts"));
    assert_eq!(wire.requests().len(), 1);
    wire.ec2.attach_cluster_node_volume(&node(), &vol()).await.unwrap();
    assert_eq!(wire.requests().len(), 3);
}

#[tokio::test]
async fn attach_is_not_sent_if_account_lookup_is_unreadable() {
    for bad in [account(""), account("12345"), account("12345678901x"), Reply::ok("<html/>"), Reply::ok("")] {
        let error = attach_fails([bad]).await;
        assert_eq!((error.action, error.class), (Action::GetCallerIdentity, ErrorClass::NotSent), "{error}");
    }
}

/// The message of a ValidationException contains EC2's code: `HyperPod - Ec2ErrCode: X`.
#[tokio::test]
async fn ec2_error_inside_a_sagemaker_error_keeps_its_class() {
    for (code, class) in [
        ("AttachmentLimitExceeded", ErrorClass::LimitExceeded(ebs_ec2::Limit::Attachments)),
        ("IncorrectState", ErrorClass::IncorrectState),
        ("InvalidAttachment.NotFound", ErrorClass::AttachmentNotFound),
        ("InvalidVolume.NotFound", ErrorClass::VolumeNotFound),
        ("VolumeInUse", ErrorClass::VolumeInUse),
        ("InvalidInstanceID.NotFound", ErrorClass::InstanceNotFound),
        ("RequestLimitExceeded", ErrorClass::Throttled),
        ("SomethingNew", ErrorClass::Other),
    ] {
        for message in [
            format!("HyperPod - Ec2ErrCode: {code}"),
            format!("Failed. HyperPod - Ec2ErrCode: {code} : Ec2ErrMsg: words"),
            format!("HyperPod - Ec2ErrCode: {code}. More words."),
        ] {
            let error = attach_fails([known(), refused(&message)]).await;
            assert_eq!(error.class, class, "{message}: {error}");
            assert_eq!(detach_fails(refused(&message)).await.class, class, "{message}");
            assert_eq!(error.code.as_deref(), Some("ValidationException"));
            assert_eq!((error.message.as_str(), error.request_id.as_deref()), (message.as_str(), Some("req-sm")));
        }
    }
    for message in ["1 validation error detected", "HyperPod - Ec2ErrCode: ", "HyperPod - Ec2ErrCode: ..."] {
        assert_eq!(attach_fails([known(), refused(message)]).await.class, ErrorClass::InvalidParameter, "{message}");
    }
}

#[tokio::test]
async fn sagemaker_error_is_classified_and_not_retried() {
    for (status, kind, class) in [
        (400, "ThrottlingException", ErrorClass::Throttled),
        (400, "com.amazonaws.sagemaker#ResourceNotFound", ErrorClass::InstanceNotFound),
        (400, "AccessDeniedException", ErrorClass::Unauthorized),
        (400, "InvalidSignatureException", ErrorClass::Unauthenticated),
        (400, "UnrecognizedClientException", ErrorClass::Unauthenticated),
        (500, "InternalFailure", ErrorClass::Ambiguous),
        (503, "ServiceUnavailable", ErrorClass::Ambiguous),
        (500, "SomethingNew", ErrorClass::Ambiguous),
        (400, "SomethingNew", ErrorClass::Other),
    ] {
        let wire = Wire::answering([known(), Reply::Say(status, format!(r#"{{"__type":"{kind}"}}"#))]).await;
        let error = wire.ec2.attach_cluster_node_volume(&node(), &vol()).await.unwrap_err();
        assert_eq!(error.class, class, "{kind}: {error}");
        assert_eq!(wire.requests().len(), 2, "{kind} was sent again");
    }
}

#[tokio::test]
async fn unreadable_or_mismatched_sagemaker_reply_is_ambiguous() {
    let good = r#"{"NodeId":"i-0abc","VolumeId":"vol-1","DeviceName":"/dev/xvdba"}"#;
    Wire::answering([known(), Reply::ok(good)]).await.ec2.attach_cluster_node_volume(&node(), &vol()).await.unwrap();
    for bad in [
        "",
        "null",
        "[]",
        "<html>Bad Gateway</html>",
        "{",
        &good[..good.len() - 1],
        r#"{"NodeId":"i-0abc","VolumeId":"vol-1"}"#,
        r#"{"NodeId":"i-0abc","VolumeId":"vol-1","DeviceName":""}"#,
        r#"{"NodeId":"i-0abc","VolumeId":"vol-1","DeviceName":7}"#,
        r#"{"NodeId":"i-0abc","VolumeId":"vol-2","DeviceName":"/dev/xvdba"}"#,
        r#"{"NodeId":"i-0abd","VolumeId":"vol-1","DeviceName":"/dev/xvdba"}"#,
        r#"{"VolumeId":"vol-1","DeviceName":"/dev/xvdba"}"#,
    ] {
        let error = attach_fails([known(), Reply::ok(bad)]).await;
        assert_eq!(error.class, ErrorClass::Ambiguous, "{bad}: {error}");
    }
    let other = detach_fails(Reply::ok(r#"{"NodeId":"i-0abc","VolumeId":"vol-2"}"#)).await;
    assert_eq!(other.class, ErrorClass::Ambiguous);
    let html = detach_fails(Reply::Say(502, "<html>Bad Gateway</html>".into())).await;
    assert_eq!(html.class, ErrorClass::Ambiguous);
    assert!(html.to_string().contains("EC2 may have executed the call"), "{html}");
}

#[tokio::test]
async fn error_about_a_node_contains_no_secret() {
    for replies in [vec![Reply::ok("no XML")], vec![known(), Reply::ok("no JSON")], vec![known(), refused("no")]] {
        let error = attach_fails(replies).await;
        let everything = format!("{error:?}");
        assert!(!everything.contains(SECRET) && !everything.contains(TOKEN), "{everything}");
    }
}
