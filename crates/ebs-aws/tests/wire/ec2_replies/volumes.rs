//! CreateVolume, DeleteVolume, and the volumes of a launch.

use std::time::Duration;

use ebs_sim::engine::{AccountSettings, Quotas, TimingOverride};

use super::account::{Account, CREATE, LAUNCH, LONG_MS, Said, of};
use super::snapshots;

const MISSING: &str = "vol-00000000000000000";

pub(super) async fn provoke(id: &str) -> Option<Said> {
    if let Some(parameters) = refused_parameters(id) {
        return Some(Account::new().await.ask(&format!("Action=CreateVolume&{parameters}")).await);
    }
    Some(match id {
        "create-io2-too-much" => io2_too_much().await,
        "create-storage-quota" => {
            let quotas = Quotas { storage_tib: [("gp3".to_owned(), 1)].into(), ..Quotas::default() };
            beyond(quotas, "Size=1025&VolumeType=gp3").await
        }
        "create-iops-quota" => {
            let quotas = Quotas { iops: [("io2".to_owned(), 100)].into(), ..Quotas::default() };
            beyond(quotas, "Size=10&VolumeType=io2&Iops=200").await
        }
        "create-snapshot-pending" => {
            let account = Account::timed(TimingOverride { snapshot_ms: Some(LONG_MS), ..Default::default() }).await;
            let snapshot = account.snapshot(&account.volume().await).await;
            account.ask(&format!("{CREATE}&SnapshotId={snapshot}")).await
        }
        "create-token-burnt" => {
            let account = Account::new().await;
            let form = format!("{CREATE}&ClientToken=again");
            let volume = of(&account.done(&form).await.body, "volumeId")?;
            account.done(&format!("Action=DeleteVolume&VolumeId={volume}")).await;
            account.ask(&form).await
        }
        "create-token-mismatch" => {
            let account = Account::new().await;
            account.done(&format!("{CREATE}&ClientToken=again")).await;
            account.ask(&format!("{CREATE}&ClientToken=again&Iops=4000")).await
        }
        "create-key-unusable" => vanishing(0).await.0,
        "create-vanishes-within" => vanishing(5_000).await.1,
        "delete-volume-missing" => Account::new().await.ask(&format!("Action=DeleteVolume&VolumeId={MISSING}")).await,
        "delete-volume-attached" => {
            let account = Account::new().await;
            let volume = account.attached("/dev/xvdaa").await;
            account.ask(&format!("Action=DeleteVolume&VolumeId={volume}")).await
        }
        _ if id.starts_with("delete-snapshot") => return snapshots::delete(id).await,
        _ => return at_launch(id).await,
    })
}

/// Returns requests with parameters that EC2 refuses.
fn refused_parameters(id: &str) -> Option<String> {
    let here = "AvailabilityZone=us-west-2a";
    Some(match id {
        "create-zone-missing" => "AvailabilityZone=us-west-2z&Size=4".to_owned(),
        "create-no-zone" => "Size=4".to_owned(),
        "create-zone-twice" => format!("{here}&AvailabilityZoneId=usw2-az1&Size=4"),
        "create-no-size" => here.to_owned(),
        "create-type-unknown" => format!("{here}&Size=4&VolumeType=gp9"),
        "create-iops-not-for-type" => format!("{here}&Size=4&VolumeType=gp2&Iops=0"),
        "create-iops-missing" => format!("{here}&Size=4&VolumeType=io1"),
        "create-throughput-not-for-type" => format!("{here}&Size=4&VolumeType=gp2&Throughput=125"),
        "create-iops-too-low" => format!("{here}&Size=100&VolumeType=gp3&Iops=100"),
        "create-iops-too-high" => format!("{here}&Size=4&VolumeType=io2&Iops=2147483647"),
        "create-iops-per-gib" => format!("{here}&Size=8&VolumeType=gp3&Iops=6000"),
        "create-throughput-per-iops" => format!("{here}&Size=100&VolumeType=gp3&Iops=3000&Throughput=1000"),
        "create-too-small" => format!("{here}&Size=1&VolumeType=io1&Iops=100"),
        "create-snapshot-missing" => format!("{here}&SnapshotId=snap-00000000000000000"),
        "create-token-too-long" => format!("{here}&Size=4&ClientToken={}", "t".repeat(65)),
        "create-key-without-encryption" => format!("{here}&Size=4&KmsKeyId=alias/mine"),
        "create-multi-attach-not-for-type" => format!("{here}&Size=4&VolumeType=gp3&MultiAttachEnabled=true"),
        _ => return None,
    })
}

async fn io2_too_much() -> Said {
    let account =
        Account::with(|config| config.account.oddities.io2_limits_as_one = vec!["us-west-2a".to_owned()]).await;
    let mut all = Vec::new();
    for much in ["Size=4000&Iops=256001", "Size=4&Iops=5000", "Size=65537&Iops=100"] {
        all.push(account.ask(&format!("Action=CreateVolume&AvailabilityZone=us-west-2a&VolumeType=io2&{much}")).await);
        let elsewhere = format!("Action=CreateVolume&AvailabilityZone=us-west-2b&VolumeType=io2&{much}");
        assert_eq!(account.ask(&elsewhere).await.code, "InvalidParameterValue", "{much}");
    }
    assert!(all.iter().all(|said| said.text == all[0].text), "{all:?}");
    all.remove(0)
}

async fn beyond(quotas: Quotas, parameters: &str) -> Said {
    let account =
        Account::with(|config| config.account = AccountSettings { quotas, ..AccountSettings::default() }).await;
    account.ask(&format!("Action=CreateVolume&AvailabilityZone=us-west-2a&{parameters}")).await
}

/// Creates a volume with an unusable key. Returns EC2's replies to the creation and to a later describe.
async fn vanishing(create_ms: u64) -> (Said, Said) {
    let account = Account::with(|config| config.account.unusable_kms_keys = vec!["alias/gone".to_owned()]).await;
    account.engine.set_timing(TimingOverride { create_ms: Some(create_ms), ..Default::default() }).await;
    let made = account.ask(&format!("{CREATE}&Encrypted=true&KmsKeyId=alias/gone")).await;
    let look = format!("Action=DescribeVolumes&VolumeId.1={}", of(&made.body, "volumeId").unwrap());
    if create_ms > 0 {
        let shown = account.done(&look).await;
        assert!(shown.body.contains("<status>creating</status>"), "{shown:?}");
    }
    account.engine.advance(Duration::from_millis(create_ms));
    let gone = account.ask(&look).await;
    assert_eq!(gone.code, "InvalidVolume.NotFound");
    (made, gone)
}

async fn at_launch(id: &str) -> Option<Said> {
    let account = Account::with(|config| {
        config.account.missing_volume_types = [("us-west-2a".to_owned(), vec!["io2".to_owned()])].into();
    })
    .await;
    let mapping = "BlockDeviceMapping.1.DeviceName=/dev/sdf&BlockDeviceMapping.1.Ebs";
    Some(match id {
        "launch-smaller-than-snapshot" => {
            let snapshot = account.snapshot(&account.volume().await).await;
            let disk = format!("{mapping}.SnapshotId={snapshot}&BlockDeviceMapping.1.Ebs.VolumeSize=1");
            account.ask(&format!("{LAUNCH}&{disk}")).await
        }
        "launch-type-not-in-region" => {
            let of_it = "BlockDeviceMapping.1.Ebs.VolumeSize=10&BlockDeviceMapping.1.Ebs.Iops=100";
            account.ask(&format!("{LAUNCH}&{mapping}.VolumeType=io2&{of_it}")).await
        }
        "launch-reserved-tag" => {
            let tag = "TagSpecification.1.Tag.1.Key=aws:mine&TagSpecification.1.Tag.1.Value=x";
            account.ask(&format!("{LAUNCH}&TagSpecification.1.ResourceType=instance&{tag}")).await
        }
        _ => return None,
    })
}
