//! Tests of IAM over HTTP: enforced policies, and the ledger's audit of the project's policies.

use ebs_sim::iam::{IamConfig, Policy, Shipped};

use crate::support::Sim;
use crate::support::request::{ec2, send};

const UNTAGGED: &str = "Action=CreateVolume&AvailabilityZone=us-west-2a&Size=1";

fn managed() -> String {
    format!(
        "{UNTAGGED}&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=ebs.csi.aws.com/cluster\
         &TagSpecification.1.Tag.1.Value=true"
    )
}

async fn under(policies: &[Shipped], audit: bool) -> Sim {
    let policies = policies.iter().map(|policy| Policy::parse(policy.name(), policy.text()).unwrap()).collect();
    Sim::start_with(|config| config.engine.iam = IamConfig { policies, audit, ..IamConfig::default() }).await
}

/// SageMaker's error code is AccessDeniedException.
#[tokio::test]
async fn call_is_allowed_by_any_policy_and_sagemaker_has_own_error() {
    let sim = under(&[Shipped::ClusterScoped, Shipped::ManagedV2], false).await;
    let url = sim.env("AWS_EC2_ENDPOINT");
    assert_eq!(ec2(&url, &managed()).await.status, 200, "the second one allows it");
    let target = "X-Amz-Target: SageMaker.AttachClusterNodeVolume";
    let body = r#"{"ClusterArn":"arn:aws:sagemaker:us-west-2:123456789012:cluster/abc123def456","NodeId":"i-0123456789abcdef0","VolumeId":"vol-0123456789abcdef0"}"#;
    let refused = send(&url, "POST /", &[target, "Content-Type: application/x-amz-json-1.1"], body).await;
    assert!(refused.status == 400 && refused.body.contains("AccessDeniedException"), "{refused:?}");
}

/// With `--audit-policies`, the ledger shows which shipped policies allow a call, and the reasons if no policy does.
#[tokio::test]
async fn ledger_names_allowing_policies_or_reasons_of_denial() {
    let sim = under(&[], true).await;
    let url = sim.env("AWS_EC2_ENDPOINT");
    assert_eq!(ec2(&url, UNTAGGED).await.status, 200, "an audit refuses nothing");
    ec2(&url, &managed()).await;
    ec2(&url, &format!("{}&Encrypted=true&KmsKeyId=alias/mine", managed())).await;
    let calls = sim.server.ledger(0).calls;
    assert!(calls[0].allowed_by.is_empty());
    let why = calls[0].denied.join("\n");
    assert!(why.contains("managed-v2 denies ec2:CreateVolume") && why.contains("aws:RequestTag"), "{why}");
    assert_eq!(
        (&calls[1].allowed_by[..], calls[1].denied.len()),
        (&["managed-v2", "legacy-example"].map(str::to_owned)[..], 0)
    );
    assert_eq!(calls[2].allowed_by, ["managed-v2+kms", "legacy-example+kms"]);
    let silent = under(&[], false).await;
    ec2(&silent.env("AWS_EC2_ENDPOINT"), UNTAGGED).await;
    assert!(silent.server.ledger(0).calls[0].denied.is_empty(), "nothing is audited unless asked for");
}
