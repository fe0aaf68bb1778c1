//! Errors that any call may get: permissions, rate limits, signatures, and the format of an error.

use std::collections::BTreeMap;

use ebs_sim::buckets::{Limits, Rate};
use ebs_sim::iam::Policy;

use super::account::{Account, CREATE, Said};
use super::signed;

const ONLY_READS: &str =
    r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ec2:Describe*","Resource":"*"}]}"#;
const MISSING: &str = "vol-00000000000000000";

pub(super) async fn provoke(id: &str) -> Option<Said> {
    Some(match id {
        "any-dry-run" => Account::new().await.ask(&format!("{CREATE}&DryRun=true")).await,
        "any-no-right" => {
            let policy = Policy::parse("only-reads", ONLY_READS).unwrap();
            let account = Account::with(|config| config.iam.policies = vec![policy]).await;
            account.ask(&format!("Action=DeleteVolume&VolumeId={MISSING}")).await
        }
        "any-throttled-2026" => {
            let rates =
                BTreeMap::from([("DescribeVolumes:unfiltered".to_owned(), Rate { capacity: 1, per_second: 1 })]);
            let account = Account::with(|config| config.limits = Some(Limits { enabled: true, rates })).await;
            account.done("Action=DescribeVolumes").await;
            account.ask("Action=DescribeVolumes").await
        }
        "any-clock-wrong" => signed::with_a_clock_that_is_wrong().await,
        "any-key-wrong" => signed::with_another_secret().await,
        "any-error-body" => {
            let said = Account::new().await.ask(&format!("Action=DescribeVolumes&VolumeId.1={MISSING}")).await;
            assert!(said.body.contains(&format!("<RequestID>{}</RequestID>", said.request_id)), "{said:?}");
            Said { text: said.body.clone(), ..said }
        }
        _ => return None,
    })
}
