//! ModifyVolume, DescribeVolumesModifications and CreateTags.

use ebs_sim::engine::TimingOverride;

use super::account::{Account, LONG_MS, Said, of};

pub(super) async fn provoke(id: &str) -> Option<Said> {
    let account = Account::with(|config| config.modifications_per_day = Some(4)).await;
    let volume = account.volume().await;
    let to = |gib: u32| format!("Action=ModifyVolume&Size={gib}&VolumeId={volume}");
    Some(match id {
        "modify-too-often" => {
            for gib in 5..9 {
                account.done(&to(gib)).await;
            }
            account.ask(&to(9)).await
        }
        "modify-not-finished" => {
            account.engine.set_timing(TimingOverride { optimize_ms: Some(LONG_MS), ..Default::default() }).await;
            account.done(&to(5)).await;
            account.ask(&to(6)).await
        }
        "modify-smaller" => account.ask(&to(3)).await,
        "modify-same-size" => account.ask(&to(4)).await,
        "modify-magnetic" => {
            let magnetic = "Action=CreateVolume&AvailabilityZone=us-west-2a&Size=4&VolumeType=standard";
            let volume = of(&account.done(magnetic).await.body, "volumeId")?;
            account.ask(&format!("Action=ModifyVolume&Size=5&VolumeId={volume}")).await
        }
        "modifications-none" => account.ask(&format!("Action=DescribeVolumesModifications&VolumeId.1={volume}")).await,
        "tags-reserved" => {
            account.ask(&format!("Action=CreateTags&ResourceId.1={volume}&Tag.1.Key=aws:mine&Tag.1.Value=x")).await
        }
        "tags-too-many" => {
            let tag = |n: usize| format!("Tag.{n}.Key=key{n}&Tag.{n}.Value=x");
            let fifty: Vec<String> = (1..=50).map(tag).collect();
            let form = format!("Action=CreateTags&ResourceId.1={volume}");
            account.done(&format!("{form}&{}", fifty.join("&"))).await;
            account.done(&format!("{form}&Tag.1.Key=key7&Tag.1.Value=y")).await;
            account.ask(&format!("{form}&Tag.1.Key=one-more&Tag.1.Value=x")).await
        }
        _ => return None,
    })
}
