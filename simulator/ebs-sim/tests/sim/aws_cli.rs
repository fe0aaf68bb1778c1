//! Tests with the unmodified AWS CLI.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::support::Sim;
use crate::support::child::{aws_cli, run};
use ebs_sim::AccessKey;
use serde_json::Value;

/// The CLI with the environment of one simulator.
struct Aws {
    program: PathBuf,
    env: BTreeMap<String, String>,
}

impl Aws {
    fn of(sim: &Sim) -> Self {
        let mut env = sim.server.env();
        for (name, value) in [
            ("HOME", "/nonexistent"),
            ("AWS_CONFIG_FILE", "/nonexistent/config"),
            ("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials"),
            ("AWS_PAGER", ""),
            ("AWS_MAX_ATTEMPTS", "1"),
            ("NO_PROXY", "127.0.0.1"),
        ] {
            env.insert(name.to_owned(), value.to_owned());
        }
        Self { program: aws_cli(), env }
    }

    async fn call(&self, line: &str) -> std::process::Output {
        let mut args = vec!["ec2"];
        args.extend(line.split_whitespace());
        args.extend(["--output", "json"]);
        run(&self.program, &args, &self.env).await
    }

    /// Returns the JSON output, or null without output.
    async fn ok(&self, line: &str) -> Value {
        let output = self.call(line).await;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "aws ec2 {line}: {err}");
        if out.trim().is_empty() { Value::Null } else { serde_json::from_str(&out).unwrap() }
    }

    /// Returns the reported error code.
    async fn code(&self, line: &str) -> String {
        let output = self.call(line).await;
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "aws ec2 {line} succeeded");
        let code = err.split_once("An error occurred (").and_then(|(_, rest)| rest.split_once(')'));
        code.unwrap_or_else(|| panic!("aws ec2 {line}: {err}")).0.to_owned()
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// It also creates and deletes tags, filters, pages, waits, and repeats a creation by its token.
#[tokio::test]
async fn aws_cli_takes_volume_through_its_life() {
    let sim = Sim::start().await;
    let aws = Aws::of(&sim);
    let instance = sim.env("EBS_SIM_INSTANCE_ID");
    let create = "create-volume --availability-zone us-west-2a --size 1 --volume-type gp3 --client-token life \
                  --tag-specifications ResourceType=volume,Tags=[{Key=color,Value=blue}]";
    let created = aws.ok(create).await;
    let id = text(&created, "VolumeId").to_owned();
    assert_eq!((&created["Size"], text(&created, "VolumeType")), (&1.into(), "gp3"));
    assert_eq!(created["Tags"][0], serde_json::json!({"Key": "color", "Value": "blue"}));
    assert_eq!(text(&aws.ok(create).await, "VolumeId"), id, "the same token");
    aws.ok(&format!("wait volume-available --volume-ids {id}")).await;

    aws.ok(&format!("create-tags --resources {id} --tags Key=owner,Value=me")).await;
    aws.ok(&format!("delete-tags --resources {id} --tags Key=color")).await;
    let found = aws.ok("describe-volumes --filters Name=tag:owner,Values=m? Name=status,Values=available").await;
    assert_eq!(found["Volumes"].as_array().unwrap().len(), 1);
    assert_eq!(found["Volumes"][0]["VolumeId"], id.as_str());
    assert_eq!(found["Volumes"][0]["Tags"], serde_json::json!([{"Key": "owner", "Value": "me"}]));
    assert_eq!(found["Volumes"][0]["Attachments"], serde_json::json!([]));

    aws.ok(&format!("attach-volume --volume-id {id} --instance-id {instance} --device /dev/xvdaa")).await;
    aws.ok(&format!("wait volume-in-use --volume-ids {id}")).await;
    let described = aws.ok(&format!("describe-instances --instance-ids {instance}")).await;
    let mapping = described["Reservations"][0]["Instances"][0]["BlockDeviceMappings"].as_array().unwrap();
    let listed = |m: &Value| m["DeviceName"] == "/dev/xvdaa" && m["Ebs"]["VolumeId"] == id.as_str();
    assert!(mapping.iter().any(listed), "{mapping:?}");

    let snapshot = aws.ok(&format!("create-snapshot --volume-id {id} --description before")).await;
    let snapshot = text(&snapshot, "SnapshotId").to_owned();
    aws.ok(&format!("wait snapshot-completed --snapshot-ids {snapshot}")).await;
    let copied = aws.ok(&format!("copy-volumes --source-volume-id {id} --size 3")).await;
    assert_eq!((text(&copied["Volumes"][0], "SourceVolumeId"), &copied["Volumes"][0]["Size"]), (&*id, &3.into()));
    let restore = format!("create-volume --availability-zone us-west-2a --snapshot-id {snapshot} --size 3");
    assert_eq!(text(&aws.ok(&restore).await, "SnapshotId"), snapshot);
    aws.ok(&restore).await;
    let before = sim.server.ledger(0).next;
    let all = aws.ok("describe-volumes --page-size 5 --filters Name=availability-zone,Values=us-west-2*").await;
    assert_eq!(all["Volumes"].as_array().unwrap().len(), 6);
    assert_eq!(sim.server.ledger(before).calls.len(), 2);

    let modified = aws.ok(&format!("modify-volume --volume-id {id} --size 4")).await;
    assert_eq!(modified["VolumeModification"]["TargetSize"], 4);
    assert_eq!(aws.code(&format!("delete-volume --volume-id {id}")).await, "VolumeInUse");
    aws.ok(&format!("detach-volume --volume-id {id}")).await;
    aws.ok(&format!("wait volume-available --volume-ids {id}")).await;
    aws.ok(&format!("delete-volume --volume-id {id}")).await;
    aws.ok(&format!("wait volume-deleted --volume-ids {id}")).await;
    assert_eq!(aws.code(&format!("delete-volume --volume-id {id}")).await, "InvalidVolume.NotFound");
    aws.ok(&format!("delete-snapshot --snapshot-id {snapshot}")).await;
    sim.server.shutdown().await.unwrap();
}

#[tokio::test]
async fn aws_cli_reports_dry_runs_errors_and_wrong_secrets() {
    let sim = Sim::start_with(|config| config.access_key = Some(AccessKey::parse("AKIATEST:right/+=").unwrap())).await;
    let mut aws = Aws::of(&sim);
    for (line, code) in [
        ("create-volume --availability-zone us-west-2a --size 1 --dry-run", "DryRunOperation"),
        ("describe-volumes --volume-ids vol-00000000000000000", "InvalidVolume.NotFound"),
        ("describe-volumes --filters Name=colour,Values=red", "InvalidParameterValue"),
        ("describe-vpcs", "InvalidAction"),
    ] {
        assert_eq!(aws.code(line).await, code, "{line}");
    }
    aws.env.insert("AWS_SECRET_ACCESS_KEY".into(), "wrong".into());
    assert_eq!(aws.code("describe-volumes").await, "AuthFailure");
    aws.env.insert("AWS_ACCESS_KEY_ID".into(), "AKIAOTHER".into());
    assert_eq!(aws.code("describe-volumes").await, "AuthFailure");
    sim.server.shutdown().await.unwrap();
}
