use ebs_ec2::{AttachmentState, BlockDevice};
use proptest::prelude::*;

use super::*;

fn volume(n: usize) -> VolumeId {
    VolumeId::parse(&format!("vol-{n}")).unwrap()
}

fn instance(devices: Vec<BlockDevice>) -> Instance {
    Instance {
        id: InstanceId::parse("i-1").unwrap(),
        state: "running".to_owned(),
        instance_type: "m5.large".to_owned(),
        zone: None,
        root_device: None,
        devices,
        network_interfaces: 1,
    }
}

fn listed(device: &DeviceName, n: usize, state: AttachmentState, card: Option<u32>) -> BlockDevice {
    BlockDevice { device: device.clone(), volume: Some(volume(n)), state: Some(state), card, attach_time: None }
}

/// `/dev/xvda` and `/dev/xvdc?` are missing because they cause problems on Windows.
#[test]
fn there_are_127_device_names_in_a_fixed_order() {
    let names: Vec<&str> = NAMES.iter().map(DeviceName::as_str).collect();
    assert_eq!(names.len(), 127);
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), 127);
    assert_eq!((names[0], names[25], names[26], names[51]), ("/dev/xvdaa", "/dev/xvdaz", "/dev/xvdba", "/dev/xvdbz"));
    assert_eq!((names[52], names[75], names[76], names[100]), ("/dev/xvdda", "/dev/xvddx", "/dev/xvdb", "/dev/xvdz"));
    assert_eq!((names[101], names[125], names[126]), ("/dev/sdb", "/dev/sdz", "/dev/sda2"));
    assert!(!names.iter().any(|n| *n == "/dev/xvda" || (n.starts_with("/dev/xvdc") && n.len() == 10)));
}

#[tokio::test(start_paused = true)]
async fn listed_device_name_is_in_use_whatever_its_state_or_volume() {
    let names = DeviceNames::default();
    let mapping = vec![
        listed(&NAMES[0], 1, AttachmentState::Attached, None),
        listed(&NAMES[1], 2, AttachmentState::Detaching, None),
        listed(&NAMES[2], 3, AttachmentState::Busy, None),
        BlockDevice { device: NAMES[3].clone(), volume: None, state: None, card: None, attach_time: None },
    ];
    assert_eq!(names.reserve(&instance(mapping), &volume(9), 1).unwrap().device, NAMES[4]);
}

#[tokio::test(start_paused = true)]
async fn likely_bad_device_name_is_the_last_choice_for_an_hour() {
    let names = DeviceNames::default();
    let bare = instance(Vec::new());
    names.mark_likely_bad(&bare.id, &NAMES[0]);
    names.mark_likely_bad(&bare.id, &NAMES[1]);
    assert_eq!(names.reserve(&bare, &volume(1), 1).unwrap().device, NAMES[2]);
    let all_others = NAMES.iter().enumerate().skip(2).map(|(n, d)| listed(d, n, AttachmentState::Attached, None));
    let full = instance(all_others.collect());
    assert_eq!(names.reserve(&full, &volume(1000), 1).unwrap().device, NAMES[0], "the one longest known as bad");
    assert_eq!(names.reserve(&full, &volume(1001), 1).unwrap().device, NAMES[1]);
    assert_eq!(names.reserve(&full, &volume(1002), 1), None);
    tokio::time::advance(LIKELY_BAD_LIFETIME).await;
    assert_eq!(names.reserve(&bare, &volume(1), 1).unwrap().device, NAMES[0]);
}

#[tokio::test(start_paused = true)]
async fn likely_bad_device_name_is_good_again_after_an_attach() {
    let names = DeviceNames::default();
    let bare = instance(Vec::new());
    assert_eq!(names.reserve(&bare, &volume(1), 1).unwrap().device, NAMES[0]);
    names.mark_likely_bad(&bare.id, &NAMES[0]);
    names.record_attached(&bare.id, &volume(1));
    names.release(&bare.id, &volume(1));
    assert_eq!(names.reserve(&bare, &volume(2), 1).unwrap().device, NAMES[0]);
}

#[tokio::test(start_paused = true)]
async fn device_name_stays_reserved_until_describes_must_list_it() {
    let names = DeviceNames::default();
    let bare = instance(Vec::new());
    assert_eq!(names.reserve(&bare, &volume(1), 1).unwrap().device, NAMES[0]);
    names.record_attached(&bare.id, &volume(1));
    tokio::time::advance(SETTLE / 2).await;
    assert_eq!(names.reserve(&bare, &volume(2), 1).unwrap().device, NAMES[1]);
    tokio::time::advance(SETTLE + instance_cache::LIFETIME).await;
    assert_eq!(names.reserve(&bare, &volume(3), 1).unwrap().device, NAMES[0]);
}

#[tokio::test(start_paused = true)]
async fn old_device_name_is_released_when_volume_reserves_another() {
    let names = DeviceNames::default();
    let bare = instance(Vec::new());
    assert_eq!(names.reserve(&bare, &volume(1), 1).unwrap().device, NAMES[0]);
    let old_still_listed = instance(vec![listed(&NAMES[0], 1, AttachmentState::Detaching, None)]);
    assert_eq!(names.reserve(&old_still_listed, &volume(1), 1).unwrap().device, NAMES[1]);
    assert_eq!(names.reserve(&bare, &volume(2), 1).unwrap().device, NAMES[0]);
}

/// A volume that is both listed and in flight counts once. Among equal cards, the lowest number wins.
#[tokio::test(start_paused = true)]
async fn card_with_fewest_volumes_is_chosen() {
    let names = DeviceNames::default();
    let bare = instance(Vec::new());
    let cards: Vec<_> = (1..4).map(|n| names.reserve(&bare, &volume(n), 2).unwrap().card).collect();
    assert_eq!(cards, [Some(0), Some(1), Some(0)]);
    let first_listed = instance(vec![listed(&NAMES[0], 1, AttachmentState::Attached, Some(0))]);
    assert_eq!(names.reserve(&first_listed, &volume(4), 2).unwrap().card, Some(1));
    assert_eq!(names.reserve(&bare, &volume(5), 1).unwrap().card, None, "one card needs no index");
}

#[derive(Debug, Clone)]
enum Step {
    Reserve(usize),
    Attached(usize),
    Failed(usize),
    Detached(usize),
    Bad(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 0..12_usize;
    prop_oneof![
        4 => n.clone().prop_map(Step::Reserve),
        2 => n.clone().prop_map(Step::Attached),
        1 => n.clone().prop_map(Step::Failed),
        1 => n.clone().prop_map(Step::Detached),
        1 => n.prop_map(Step::Bad),
        1 => (0..20_u64).prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// The simulated EC2 lists an attachment `SETTLE` after the call at the latest.
    #[test]
    fn two_volumes_never_hold_the_same_device_name(steps in proptest::collection::vec(step(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let names = DeviceNames::default();
            let id = instance(Vec::new()).id;
            // `pending` has the names in flight, and `attached` has the accepted attachments with their times. EC2
            // lists an attachment `SETTLE` after its time.
            let mut pending: HashMap<usize, DeviceName> = HashMap::new();
            let mut attached: HashMap<usize, (DeviceName, Instant)> = HashMap::new();
            for step in steps {
                match step {
                    Step::Reserve(n) if !attached.contains_key(&n) => {
                        let seen = attached.iter().filter(|(_, (_, at))| at.elapsed() >= SETTLE);
                        let mapping = seen.map(|(n, (d, _))| listed(d, *n, AttachmentState::Attached, None)).collect();
                        pending.remove(&n);
                        let taken = names.reserve(&instance(mapping), &volume(n), 1).unwrap().device;
                        prop_assert!(!pending.values().any(|d| *d == taken), "{taken} is in flight");
                        prop_assert!(!attached.values().any(|(d, _)| *d == taken), "{taken} is attached");
                        pending.insert(n, taken);
                    }
                    Step::Attached(n) => {
                        if let Some(device) = pending.remove(&n) {
                            names.record_attached(&id, &volume(n));
                            attached.insert(n, (device, Instant::now()));
                        }
                    }
                    Step::Failed(n) => {
                        if pending.remove(&n).is_some() {
                            names.release(&id, &volume(n));
                        }
                    }
                    Step::Detached(n) => {
                        if attached.remove(&n).is_some() {
                            names.release(&id, &volume(n));
                        }
                    }
                    Step::Bad(n) => names.mark_likely_bad(&id, &NAMES[n]),
                    Step::Pass(seconds) => tokio::time::advance(Duration::from_secs(seconds)).await,
                    Step::Reserve(_) => {}
                }
            }
            Ok(())
        })?;
    }
}

/// EC2 may take a long time to show the outcome of an AttachVolume.
#[tokio::test(start_paused = true)]
async fn device_name_of_an_unclear_attach_is_held_for_10_minutes() {
    let names = DeviceNames::default();
    let bare = instance(Vec::new());
    assert_eq!(names.reserve(&bare, &volume(1), 1).unwrap().device, NAMES[0]);
    tokio::time::advance(Duration::from_secs(599)).await;
    assert_eq!(names.reserve(&bare, &volume(2), 1).unwrap().device, NAMES[1]);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(names.reserve(&bare, &volume(3), 1).unwrap().device, NAMES[0]);
}
