//! Replies that no state of an account causes: a fault rule returns each of them once.

use ebs_sim::faults::{Effect, Rule};

use super::account::{Account, CREATE, Said};
use super::rows::{Row, example};

/// Returns the reply of the row. A second call succeeds.
pub(super) async fn provoke(row: &Row) -> Said {
    let account = Account::new().await;
    let form = call(&account, &row.action).await;
    let (code, message, status) = (row.code.clone(), example(&row.text), row.status);
    let effect = Effect::Error { code, message, status, after_doing: false };
    account.engine.faults().add(Rule::new(effect).on(row.action.as_str()).times(1)).unwrap();
    let said = account.ask(&form).await;
    account.done(&form).await;
    said
}

/// Returns a call of the action that succeeds.
async fn call(account: &Account, action: &str) -> String {
    match action {
        "CreateVolume" => CREATE.to_owned(),
        "AttachVolume" => {
            let (volume, instance) = (account.volume().await, &account.instance);
            format!("Action=AttachVolume&VolumeId={volume}&InstanceId={instance}&Device=/dev/xvdaa")
        }
        "DetachVolume" => format!("Action=DetachVolume&VolumeId={}", account.attached("/dev/xvdaa").await),
        "DeleteVolume" => format!("Action=DeleteVolume&VolumeId={}", account.volume().await),
        "ModifyVolume" => format!("Action=ModifyVolume&Size=5&VolumeId={}", account.volume().await),
        "CopyVolumes" => format!("Action=CopyVolumes&SourceVolumeId={}", account.volume().await),
        "DeleteSnapshot" => {
            let volume = account.volume().await;
            format!("Action=DeleteSnapshot&SnapshotId={}", account.snapshot(&volume).await)
        }
        describe => format!("Action={describe}"),
    }
}
