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

#[tokio::test]
async fn aws_cli_takes_volume_through_its_life() {
    let sim = Sim::start().await;
    let aws = Aws::of(&sim);
    let instance = sim.env("EBS_SIM_INSTANCE_ID");

    let created = aws
        .ok("create-volume --availability-zone us-west-2a --size 1 --volume-type gp3 --client-token life \
             --tag-specifications ResourceType=volume,Tags=[{Key=color,Value=blue}]")
        .await;
    let id = text(&created, "VolumeId").to_owned();
    assert_eq!((&created["Size"], text(&created, "VolumeType")), (&1.into(), "gp3"));
    assert_eq!(created["Tags"][0], serde_json::json!({"Key": "color", "Value": "blue"}));
    aws.ok(&format!("wait volume-available --volume-ids {id}")).await;

    aws.ok(&format!("create-tags --resources {id} --tags Key=owner,Value=me")).await;
    aws.ok(&format!("delete-tags --resources {id} --tags Key=color")).await;
    let found = aws.ok("describe-volumes --filters Name=tag:owner,Values=me Name=status,Values=available").await;
    assert_eq!(found["Volumes"].as_array().unwrap().len(), 1);
    assert_eq!(found["Volumes"][0]["VolumeId"], id.as_str());
    assert_eq!(found["Volumes"][0]["Tags"], serde_json::json!([{"Key": "owner", "Value": "me"}]));
    assert_eq!(found["Volumes"][0]["Attachments"], serde_json::json!([]));
    let none = aws.ok("describe-volumes --filters Name=tag:color,Values=blue").await;
    assert_eq!(none["Volumes"], serde_json::json!([]));

    let attach = format!("attach-volume --volume-id {id} --instance-id {instance} --device /dev/xvdaa");
    assert_eq!(text(&aws.ok(&attach).await, "Device"), "/dev/xvdaa");
    aws.ok(&format!("wait volume-in-use --volume-ids {id}")).await;
    let described = aws.ok(&format!("describe-instances --instance-ids {instance}")).await;
    let mapping = described["Reservations"][0]["Instances"][0]["BlockDeviceMappings"].as_array().unwrap();
    assert!(
        mapping.iter().any(|m| m["DeviceName"] == "/dev/xvdaa" && m["Ebs"]["VolumeId"] == id.as_str()),
        "{mapping:?}"
    );
    assert_eq!(aws.code(&format!("delete-volume --volume-id {id}")).await, "VolumeInUse");
    aws.ok(&format!("detach-volume --volume-id {id}")).await;
    aws.ok(&format!("wait volume-available --volume-ids {id}")).await;

    aws.ok(&format!("delete-volume --volume-id {id}")).await;
    aws.ok(&format!("wait volume-deleted --volume-ids {id}")).await;
    assert_eq!(aws.code(&format!("delete-volume --volume-id {id}")).await, "InvalidVolume.NotFound");
    sim.server.shutdown().await.unwrap();
}

#[tokio::test]
async fn aws_cli_snapshots_restores_and_modifies() {
    let sim = Sim::start().await;
    let aws = Aws::of(&sim);
    let created = aws.ok("create-volume --availability-zone us-west-2b --size 2").await;
    let id = text(&created, "VolumeId").to_owned();
    aws.ok(&format!("wait volume-available --volume-ids {id}")).await;

    let snapshot = aws.ok(&format!("create-snapshot --volume-id {id} --description before")).await;
    let snapshot = text(&snapshot, "SnapshotId").to_owned();
    aws.ok(&format!("wait snapshot-completed --snapshot-ids {snapshot}")).await;
    let listed = aws.ok(&format!("describe-snapshots --owner-ids self --filters Name=volume-id,Values={id}")).await;
    let listed = &listed["Snapshots"][0];
    assert_eq!((text(listed, "SnapshotId"), text(listed, "Description")), (snapshot.as_str(), "before"));
    assert_eq!((text(listed, "Progress"), &listed["VolumeSize"]), ("100%", &2.into()));
    let restore = format!("create-volume --availability-zone us-west-2a --snapshot-id {snapshot} --size 3");
    assert_eq!(text(&aws.ok(&restore).await, "SnapshotId"), snapshot);

    let modified = aws.ok(&format!("modify-volume --volume-id {id} --size 4")).await;
    assert_eq!(modified["VolumeModification"]["TargetSize"], 4);
    let modifications = aws.ok(&format!("describe-volumes-modifications --volume-ids {id}")).await;
    assert_eq!(modifications["VolumesModifications"][0]["OriginalSize"], 2);

    aws.ok(&format!("delete-snapshot --snapshot-id {snapshot}")).await;
    let gone = format!("describe-snapshots --snapshot-ids {snapshot}");
    assert_eq!(aws.code(&gone).await, "InvalidSnapshot.NotFound");
    sim.server.shutdown().await.unwrap();
}

/// It uses its own waiters.
#[tokio::test]
async fn aws_cli_runs_instances_and_copies_and_locks() {
    let sim = Sim::start().await;
    let aws = Aws::of(&sim);
    let run = "run-instances --image-id ami-0123456789abcdef0 --instance-type m5.large --count 1 --key-name k \
               --placement AvailabilityZone=us-west-2a --client-token run \
               --block-device-mappings DeviceName=/dev/sdf,Ebs={VolumeSize=2,DeleteOnTermination=true}";
    let instance = text(&aws.ok(run).await["Instances"][0], "InstanceId").to_owned();
    assert_eq!(text(&aws.ok(run).await["Instances"][0], "InstanceId"), instance, "the same token");
    aws.ok(&format!("wait instance-running --instance-ids {instance}")).await;
    let disks =
        "describe-volumes --filters Name=attachment.instance-id,Values={i} Name=attachment.device,Values=/dev/sdf";
    let disks = aws.ok(&disks.replace("{i}", &instance)).await;
    let disk = text(&disks["Volumes"][0], "VolumeId").to_owned();

    let copied = aws.ok(&format!("copy-volumes --source-volume-id {disk} --size 3")).await;
    assert_eq!((text(&copied["Volumes"][0], "SourceVolumeId"), &copied["Volumes"][0]["Size"]), (&*disk, &3.into()));
    let snapshot = aws.ok(&format!("create-snapshot --volume-id {disk}")).await;
    let snapshot = text(&snapshot, "SnapshotId").to_owned();
    aws.ok(&format!("wait snapshot-completed --snapshot-ids {snapshot}")).await;
    let fast = "enable-fast-snapshot-restores --availability-zones us-west-2a us-west-2b --source-snapshot-ids";
    let fast = aws.ok(&format!("{fast} {snapshot}")).await;
    assert_eq!((fast["Successful"].as_array().unwrap().len(), &fast["Unsuccessful"]), (2, &serde_json::json!([])));
    let slow = "disable-fast-snapshot-restores --availability-zones us-west-2b --source-snapshot-ids";
    let slow = aws.ok(&format!("{slow} {snapshot}")).await;
    assert_eq!(text(&slow["Successful"][0], "State"), "disabling");
    let lock = format!("lock-snapshot --snapshot-id {snapshot} --lock-mode governance --lock-duration 1");
    assert_eq!(text(&aws.ok(&lock).await, "LockState"), "governance");
    assert_eq!(aws.code(&format!("delete-snapshot --snapshot-id {snapshot}")).await, "SnapshotLocked");
    assert_eq!(text(&aws.ok(&format!("unlock-snapshot --snapshot-id {snapshot}")).await, "SnapshotId"), snapshot);
    assert_eq!(aws.code(&format!("delete-snapshot --snapshot-id {snapshot}")).await, "InvalidSnapshot.InUse");
    let slow = "disable-fast-snapshot-restores --availability-zones us-west-2a --source-snapshot-ids";
    aws.ok(&format!("{slow} {snapshot}")).await;
    aws.ok(&format!("delete-snapshot --snapshot-id {snapshot}")).await;

    let stopped = aws.ok(&format!("stop-instances --instance-ids {instance}")).await;
    assert_eq!(stopped["StoppingInstances"][0]["CurrentState"], serde_json::json!({"Code": 64, "Name": "stopping"}));
    aws.ok(&format!("wait instance-stopped --instance-ids {instance}")).await;
    assert_eq!(
        aws.code(&format!("stop-instances --hibernate --instance-ids {instance}")).await,
        "UnsupportedOperation"
    );
    let started = aws.ok(&format!("start-instances --instance-ids {instance}")).await;
    assert_eq!(started["StartingInstances"][0]["CurrentState"], serde_json::json!({"Code": 0, "Name": "pending"}));
    aws.ok(&format!("wait instance-running --instance-ids {instance}")).await;
    let ended = aws.ok(&format!("terminate-instances --instance-ids {instance}")).await;
    assert_eq!(ended["TerminatingInstances"][0]["PreviousState"]["Name"], "running");
    aws.ok(&format!("wait instance-terminated --instance-ids {instance}")).await;
    aws.ok(&format!("wait volume-deleted --volume-ids {disk}")).await;
    sim.server.shutdown().await.unwrap();
}

#[tokio::test]
async fn aws_cli_pages_through_a_listing() {
    let sim = Sim::start().await;
    let aws = Aws::of(&sim);
    for _ in 0..6 {
        aws.ok("create-volume --availability-zone us-west-2a --size 1 \
                --tag-specifications ResourceType=volume,Tags=[{Key=set,Value=six}]")
            .await;
    }
    let before = sim.server.ledger(0).next;
    let all = aws.ok("describe-volumes --filters Name=tag:set,Values=six --page-size 5").await;
    assert_eq!(all["Volumes"].as_array().unwrap().len(), 6);
    assert_eq!(sim.server.ledger(before).calls.len(), 2);
    let first = aws.ok("describe-volumes --filters Name=tag:set,Values=six --max-results 5 --no-paginate").await;
    assert_eq!(first["Volumes"].as_array().unwrap().len(), 5);
    assert!(first["NextToken"].is_string());
    sim.server.shutdown().await.unwrap();
}

/// The AWS CLI repeats a creation with its token, filters with wildcards and up to 200 values, and gets EC2's error
/// codes.
#[tokio::test]
async fn aws_cli_filters_and_repeats_a_creation() {
    let sim = Sim::start().await;
    let aws = Aws::of(&sim);
    let create = "create-volume --availability-zone us-west-2a --client-token again --size";
    let made = aws.ok(&format!("{create} 2")).await;
    let id = text(&made, "VolumeId");
    assert_eq!(text(&aws.ok(&format!("{create} 2")).await, "VolumeId"), id);
    assert_eq!(aws.code(&format!("{create} 3")).await, "IdempotentParameterMismatch");

    aws.ok(&format!("create-tags --resources {id} --tags Key=name,Value=alpha*1")).await;
    let ids = |found: &Value| -> Vec<String> {
        found["Volumes"].as_array().unwrap().iter().map(|volume| text(volume, "VolumeId").to_owned()).collect()
    };
    for (pattern, wanted) in [("al?ha*", vec![id.to_owned()]), (r"alpha\*1", vec![id.to_owned()]), ("beta*", vec![])] {
        let found = aws.ok(&format!("describe-volumes --filters Name=tag:name,Values={pattern}")).await;
        assert_eq!(ids(&found), wanted, "{pattern}");
    }
    let values = |n: usize| vec![id; n].join(",");
    let found = aws.ok(&format!("describe-volumes --filters Name=volume-id,Values={}", values(200))).await;
    assert_eq!(ids(&found), [id]);
    let many = format!("describe-volumes --filters Name=volume-id,Values={}", values(201));
    assert_eq!(aws.code(&many).await, "FilterLimitExceeded");
    assert_eq!(aws.code("describe-volumes --filters Name=colour,Values=red").await, "InvalidParameterValue");
    assert_eq!(aws.code(&format!("detach-volume --volume-id {id}")).await, "IncorrectState");
    assert_eq!(aws.code("delete-volume --volume-id vol-xyz").await, "InvalidVolumeID.Malformed");
    sim.server.shutdown().await.unwrap();
}

#[tokio::test]
async fn aws_cli_describes_all_objects() {
    let sim = Sim::start().await;
    let aws = Aws::of(&sim);
    let zones = aws.ok("describe-availability-zones").await;
    let zones = zones["AvailabilityZones"].as_array().unwrap();
    assert!(zones.iter().any(|z| z["ZoneName"] == "us-west-2a" && z["State"] == "available"), "{zones:?}");
    let types = aws.ok("describe-instance-types --instance-types m5.large").await;
    assert_eq!(types["InstanceTypes"][0]["EbsInfo"]["MaximumEbsCards"], 1);
    assert_eq!(aws.ok("describe-tags").await["Tags"].as_array().map(Vec::is_empty), Some(true));
    sim.server.shutdown().await.unwrap();
}

#[tokio::test]
async fn aws_cli_reports_codes_of_dry_runs_and_errors() {
    let sim = Sim::start().await;
    let aws = Aws::of(&sim);
    let create = "create-volume --availability-zone us-west-2a --size 1";
    assert_eq!(aws.code(&format!("{create} --dry-run")).await, "DryRunOperation");
    let none = aws.ok("describe-volumes --filters Name=availability-zone,Values=us-west-2a Name=size,Values=1").await;
    assert_eq!(none["Volumes"], serde_json::json!([]), "a dry run made a volume");
    let missing = "describe-volumes --volume-ids vol-00000000000000000";
    assert_eq!(aws.code(missing).await, "InvalidVolume.NotFound");
    assert_eq!(aws.code("describe-vpcs").await, "InvalidAction");
    sim.server.shutdown().await.unwrap();
}

#[tokio::test]
async fn aws_cli_needs_the_right_secret() {
    let sim = Sim::start_with(|config| config.access_key = Some(AccessKey::parse("AKIATEST:right/+=").unwrap())).await;
    let mut aws = Aws::of(&sim);
    aws.ok("describe-volumes --filters Name=tag:a,Values=b*").await;
    aws.env.insert("AWS_SECRET_ACCESS_KEY".into(), "wrong".into());
    assert_eq!(aws.code("describe-volumes").await, "AuthFailure");
    aws.env.insert("AWS_ACCESS_KEY_ID".into(), "AKIAOTHER".into());
    assert_eq!(aws.code("describe-volumes").await, "AuthFailure");
    sim.server.shutdown().await.unwrap();
}
