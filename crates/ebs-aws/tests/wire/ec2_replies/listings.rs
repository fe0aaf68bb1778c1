//! Describes: ids, pages and filters.

use super::account::{Account, Said, of};

pub(super) async fn provoke(id: &str) -> Option<Said> {
    if id == "instances-token-after-last-page" {
        return Some(token_after_last_page().await);
    }
    if id == "instances-malformed" {
        return Some(malformed_instances().await);
    }
    let (instance, other) = ("i-00000000000000000", "i-00000000000000001");
    let (volume, snapshot) = ("vol-00000000000000000", "snap-00000000000000000");
    let form = match id {
        "instances-missing" => format!("Action=DescribeInstances&InstanceId.1={instance}"),
        "instances-several-missing" => {
            format!("Action=DescribeInstances&InstanceId.1={instance}&InstanceId.2={other}")
        }
        "instances-ids-and-page" => format!("Action=DescribeInstances&MaxResults=5&InstanceId.1={instance}"),
        "instances-page-too-small" => "Action=DescribeInstances&MaxResults=4".to_owned(),
        "instances-many-filter-values" => {
            let values: Vec<String> = (1..=201).map(|n| format!("Filter.1.Value.{n}={instance}")).collect();
            format!("Action=DescribeInstances&Filter.1.Name=instance-id&{}", values.join("&"))
        }
        "instances-filter-unknown" => "Action=DescribeInstances&Filter.1.Name=colour&Filter.1.Value.1=x".to_owned(),
        "snapshots-missing" => format!("Action=DescribeSnapshots&SnapshotId.1={snapshot}"),
        "snapshots-empty-id" => "Action=DescribeSnapshots&SnapshotId.1=".to_owned(),
        "pages-token-broken" => "Action=DescribeVolumes&MaxResults=5&NextToken=nobody-issued-this".to_owned(),
        "volumes-ids-and-page" => format!("Action=DescribeVolumes&MaxResults=5&VolumeId.1={volume}"),
        "volumes-malformed" => "Action=DescribeVolumes&VolumeId.1=disk-1".to_owned(),
        "volumes-missing" => format!("Action=DescribeVolumes&VolumeId.1={volume}"),
        _ => return None,
    };
    Some(Account::new().await.ask(&form).await)
}

async fn malformed_instances() -> Said {
    let account = Account::new().await;
    let none = account.ask("Action=DescribeInstances&InstanceId.1=").await;
    assert_eq!(none.text, "Invalid id: \"\" (expecting \"i-...\")");
    account.ask("Action=DescribeInstances&InstanceId.1=machine-1").await
}

/// Reads five instances in pages of five.
async fn token_after_last_page() -> Said {
    let account = Account::with(|config| config.account.oddities.tokens_after_full_pages = true).await;
    for _ in 0..3 {
        account.launched().await;
    }
    let page = "Action=DescribeInstances&MaxResults=5";
    let full = account.done(page).await;
    let token = of(&full.body, "nextToken").expect("a token after a full page");
    let empty = account.done(&format!("{page}&NextToken={token}")).await;
    assert!(!empty.body.contains("<instanceId>") && !empty.body.contains("<nextToken>"), "{empty:?}");
    full
}
