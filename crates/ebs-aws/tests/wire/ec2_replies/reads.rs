//! Stale reads of EC2 that were observed.

use std::time::Duration;

use ebs_sim::engine::{Consistency, TimingOverride};

use super::account::{Account, Said};

const MAX_LAG: Duration = Duration::from_secs(15);
/// The most describes. The staleness is random, and a state that half of all describes show is seen within this number.
const LOOKS: usize = 400;
const INSTANCES: &str = "Action=DescribeInstances";
const VOLUMES: &str = "Action=DescribeVolumes";

pub(super) async fn provoke(id: &str) -> Option<Said> {
    match id {
        "reads-detaching-again" => goes_back(INSTANCES, "<status>detaching</status>").await,
        "reads-attached-again" => goes_back(VOLUMES, "<status>attached</status>").await,
        "reads-attached-after-end" => {
            let (account, volume) = detached().await;
            until(&account, VOLUMES, |said| shows(said, &volume)).await
        }
        "reads-disagree" => disagreeing().await,
        "reads-attached-after-detach" => first_look_after_detach().await,
        "reads-new-volume" => new_volume().await,
        "reads-new-instance" => new_instance(Duration::from_secs(200)).await,
        "reads-half-a-minute" => new_instance(Duration::from_secs(20)).await,
        "reads-instance-state" => state_of_instance().await,
        "reads-two-filters" => two_filters().await,
        "reads-changes-too" => changes_too().await,
        _ => None,
    }
}

async fn lagging() -> Account {
    Account::with(|config| config.consistency = Consistency { max_lag: MAX_LAG }).await
}

/// Returns the first reply to the call that meets the condition.
async fn until(account: &Account, form: &str, wanted: impl Fn(&Said) -> bool) -> Option<Said> {
    for _ in 0..LOOKS {
        let said = account.ask(form).await;
        if wanted(&said) {
            return Some(said);
        }
    }
    None
}

fn shows(said: &Said, volume: &str) -> bool {
    said.body.contains(&format!("<volumeId>{volume}</volumeId><instanceId>"))
}

/// Returns an account with a volume that was attached for long and left a moment ago.
async fn detached() -> (Account, String) {
    let account = lagging().await;
    let volume = account.attached("/dev/xvdaa").await;
    account.engine.advance(MAX_LAG * 2);
    account.engine.set_timing(TimingOverride { detach_ms: Some(5_000), ..Default::default() }).await;
    assert_eq!(account.detach(&volume).await.status, 200);
    account.engine.advance(Duration::from_secs(5));
    assert_eq!(account.attachment_state(&volume).await, None);
    (account, volume)
}

/// Returns a describe with the state, after one without the attachment.
async fn goes_back(form: &str, state: &str) -> Option<Said> {
    let (account, volume) = detached().await;
    // The elements of a volume have another order in instances.
    let is_there = |said: &Said| if form == VOLUMES { shows(said, &volume) } else { said.body.contains(&volume) };
    until(&account, form, |said| !is_there(said)).await?;
    until(&account, form, |said| is_there(said) && said.body.contains(state)).await
}

async fn disagreeing() -> Option<Said> {
    let (account, volume) = detached().await;
    for _ in 0..LOOKS {
        let (instances, volumes) = (account.ask(INSTANCES).await, account.ask(VOLUMES).await);
        if instances.body.contains(&volume) != shows(&volumes, &volume) {
            return Some(instances);
        }
    }
    None
}

async fn first_look_after_detach() -> Option<Said> {
    for _ in 0..LOOKS {
        let account = lagging().await;
        let volume = account.attached("/dev/xvdaa").await;
        account.engine.advance(MAX_LAG * 2);
        account.detach(&volume).await;
        let said = account.ask(VOLUMES).await;
        if shows(&said, &volume) && said.body.contains("<status>attached</status>") {
            return Some(said);
        }
    }
    None
}

async fn new_volume() -> Option<Said> {
    let account = lagging().await;
    let form = format!("{VOLUMES}&VolumeId.1={}", account.volume().await);
    account.engine.advance(Duration::from_secs(4));
    until(&account, &form, |said| said.status != 200).await
}

/// Describes an instance of this age, in an account where descriptions of instances are stale for minutes.
async fn new_instance(age: Duration) -> Option<Said> {
    let account = Account::with(|config| config.account.oddities.instances_max_lag_ms = Some(300_000)).await;
    let form = format!("{INSTANCES}&InstanceId.1={}", account.launched().await);
    account.engine.advance(age);
    let missed = until(&account, &form, |said| said.status != 200).await;
    account.engine.advance(Duration::from_secs(301));
    assert!(until(&account, &form, |said| said.status != 200).await.is_none(), "it lags for more than 5 min");
    missed
}

async fn state_of_instance() -> Option<Said> {
    let account = lagging().await;
    let instance = account.launched().await;
    account.engine.advance(MAX_LAG * 2);
    account.done(&format!("Action=StopInstances&InstanceId.1={instance}")).await;
    let form = format!("{INSTANCES}&InstanceId.1={instance}");
    until(&account, &form, |said| said.body.contains("<name>running</name>")).await
}

async fn two_filters() -> Option<Said> {
    let account = lagging().await;
    account.launched().await;
    let by_state = format!("{INSTANCES}&Filter.1.Name=instance-state-name&Filter.1.Value.1=running");
    let by_image = format!("{INSTANCES}&Filter.1.Name=image-id&Filter.1.Value.1=ami-12345678");
    for _ in 0..LOOKS {
        let (one, other) = (account.ask(&by_state).await, account.ask(&by_image).await);
        if one.body.contains("ami-12345678") && !other.body.contains("ami-12345678") {
            return Some(one);
        }
    }
    None
}

async fn changes_too() -> Option<Said> {
    let account = Account::with(|config| {
        config.consistency = Consistency { max_lag: MAX_LAG };
        config.account.oddities.changes_meet_the_lag = true;
    })
    .await;
    for _ in 0..LOOKS {
        let volume = account.volume().await;
        account.engine.advance(MAX_LAG * 2);
        let said = account.attach_to(&account.launched().await, &volume, "/dev/xvdaa").await;
        if said.status != 200 {
            return Some(said);
        }
    }
    None
}
