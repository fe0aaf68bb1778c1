//! CreateSnapshot, DeleteSnapshot and fast restores.

use std::time::Duration;

use ebs_sim::engine::TimingOverride;

use super::account::{Account, LONG_MS, Said};

pub(super) async fn provoke(id: &str) -> Option<Said> {
    let account = Account::timed(TimingOverride { snapshot_ms: Some(LONG_MS), ..Default::default() }).await;
    Some(match id {
        "snapshot-too-soon" => {
            let interval = Some(Duration::from_secs(15));
            let account = Account::with(|config| config.snapshot_interval = interval).await;
            let volume = account.volume().await;
            account.snapshot(&volume).await;
            account.ask(&format!("Action=CreateSnapshot&VolumeId={volume}")).await
        }
        "snapshot-many-of-volume" => {
            let volume = account.volume().await;
            for _ in 0..5 {
                account.snapshot(&volume).await;
            }
            account.ask(&format!("Action=CreateSnapshot&VolumeId={volume}")).await
        }
        "snapshot-many-of-region" => {
            let account = Account::with(|config| config.account.quotas.pending_snapshots = Some(2)).await;
            account.engine.set_timing(TimingOverride { snapshot_ms: Some(LONG_MS), ..Default::default() }).await;
            for _ in 0..2 {
                account.snapshot(&account.volume().await).await;
            }
            account.ask(&format!("Action=CreateSnapshot&VolumeId={}", account.volume().await)).await
        }
        "snapshot-volume-missing" => account.ask("Action=CreateSnapshot&VolumeId=vol-00000000000000000").await,
        "snapshot-volume-malformed" => account.ask("Action=CreateSnapshot&VolumeId=disk-1").await,
        "fast-restores-many" => {
            let ids: Vec<String> = (1..=11).map(|n| format!("SourceSnapshotId.{n}=snap-000000{n:02}")).collect();
            let zone = "Action=EnableFastSnapshotRestores&AvailabilityZone.1=us-west-2a";
            account.ask(&format!("{zone}&{}", ids.join("&"))).await
        }
        _ => return None,
    })
}

pub(super) async fn delete(id: &str) -> Option<Said> {
    let account = Account::new().await;
    let snapshot = account.snapshot(&account.volume().await).await;
    let delete = format!("Action=DeleteSnapshot&SnapshotId={snapshot}");
    Some(match id {
        "delete-snapshot-missing" => {
            account.done(&delete).await;
            account.ask(&delete).await
        }
        "delete-snapshot-locked" => {
            let lock = "Action=LockSnapshot&LockMode=governance&LockDuration=1";
            account.done(&format!("{lock}&SnapshotId={snapshot}")).await;
            account.ask(&delete).await
        }
        "delete-snapshot-restored-fast" => {
            let there = format!("AvailabilityZone.1=us-west-2a&SourceSnapshotId.1={snapshot}");
            account.done(&format!("Action=EnableFastSnapshotRestores&{there}")).await;
            let said = account.ask(&delete).await;
            account.done(&format!("Action=DisableFastSnapshotRestores&{there}")).await;
            account.done(&delete).await;
            said
        }
        _ => return None,
    })
}
