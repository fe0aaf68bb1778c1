//! Requests with random fields. Each gets a CSI code and a readable message, and a refused request changes nothing.
//!
//! Every run makes the same requests. `RANDOM_REQUESTS_SEED` sets another seed, and `RANDOM_REQUESTS` another number of
//! requests.

mod fields;
mod values;

use std::collections::BTreeMap;

use ebs_sim::iam::Extra;

use super::*;
use fields::{Request, RequestKind};
use values::Random;

/// The codes that the tables of CSI, or gRPC for all RPCs, permit.
const CODES: [&str; 12] = [
    "InvalidArgument",
    "OutOfRange",
    "NotFound",
    "AlreadyExists",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "Unavailable",
    "Unauthenticated",
    "PermissionDenied",
    "Unimplemented",
    "Internal",
];

/// Returns the lasting part of EC2's state: live volumes with size, type, tags and attachments, and snapshots.
async fn state(world: &World) -> BTreeMap<String, String> {
    let state = world.ec2.engine().snapshot_of_state().await;
    let live = |state: &str| !state.starts_with("delet");
    let volumes = state.volumes.into_iter().filter(|v| live(&v.state)).map(|v| {
        let nodes: Vec<_> = v.attachments.iter().map(|a| a.instance_id.clone()).collect();
        (v.id, format!("{} {} {:?} {nodes:?}", v.size_gib, v.volume_type, v.tags))
    });
    let snapshots = state.snapshots.into_iter().map(|s| (s.id, format!("{:?}", s.tags)));
    volumes.chain(snapshots).collect()
}

/// The objects of the requests.
pub(super) struct Things {
    volume: String,
    snapshot: String,
    node: String,
}

impl Things {
    /// Returns the objects that still exist, and replaces the deleted ones.
    async fn of(world: &World, before: Option<Self>) -> Self {
        let state = state(world).await;
        let kept = |id: Option<&String>| id.filter(|id| state.contains_key(*id)).cloned();
        let volume = match kept(before.as_ref().map(|t| &t.volume)) {
            Some(volume) => volume,
            None => world.volume(&format!("pvc-own-{}", state.len())).await,
        };
        let snapshot = match kept(before.as_ref().map(|t| &t.snapshot)) {
            Some(snapshot) => snapshot,
            None => {
                let now = world.ec2.engine().now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
                let request = CreateSnapshotRequest {
                    name: format!("snapshot-own-{}", now.as_nanos()),
                    source_volume_id: volume.clone(),
                    ..Default::default()
                };
                let answer = within("a snapshot", world.service.create_snapshot(world.over(request))).await;
                answer.expect("a snapshot can be taken").into_inner().snapshot.expect("one").snapshot_id
            }
        };
        Self { volume, snapshot, node: world.here.to_string() }
    }
}

/// Returns the faults of an error: a client must be able to act on it, and a person must be able to read it.
fn faults(request: &Request, refused: &Refused) -> Vec<&'static str> {
    let Refused { code, message } = refused;
    let lower = message.to_lowercase();
    let is_of_the_request = matches!(code.as_str(), "InvalidArgument" | "OutOfRange");
    let is_named = || request.changed.iter().flat_map(|field| field.words()).any(|word| lower.contains(word));
    let rules = [
        ("its code is none of CSI's", CODES.contains(&code.as_str())),
        ("it has no message", !message.trim().is_empty()),
        ("its message has control characters", !message.chars().any(char::is_control)),
        ("its message is too long", message.chars().count() <= 2_100),
        ("something broke", !["internal error", "ended unexpectedly"].iter().any(|broken| message.contains(broken))),
        ("it names no field that was changed", !is_of_the_request || is_named()),
    ];
    rules.into_iter().filter(|(_, holds)| !holds).map(|(fault, _)| fault).collect()
}

/// Each field of the requests to all controller RPCs is a random text, number or map, also with keys that differ only
/// in case. Each request gets a CSI code and a bounded message without control characters that names the field. A
/// refused request has changed nothing in EC2. No request panics.
#[tokio::test(start_paused = true)]
async fn random_requests_get_codes_and_refused_ones_change_nothing() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("RANDOM_REQUESTS_SEED").unwrap_or(1);
    let count = number("RANDOM_REQUESTS").unwrap_or(10_000);
    let world = World::start().await;
    for extra in [Extra::HyperPod, Extra::Kms] {
        world.ec2.declare(extra);
    }
    let mut random = Random::from(seed);
    let mut things = Things::of(&world, None).await;
    let mut before = state(&world).await;
    let mut answers: BTreeMap<String, u32> = BTreeMap::new();
    let mut found = Vec::new();
    for _ in 0..count {
        let request = fields::random_request(&mut random, &things);
        world.ec2.clear_calls();
        let answer = within("an answer", request.send(&world)).await;
        let code = answer.as_ref().map_or_else(|refused| refused.code.clone(), |()| "OK".to_owned());
        *answers.entry(format!("{:?} {code}", request.kind)).or_default() += 1;
        if let Err(refused) = &answer {
            found.extend(
                faults(&request, refused).into_iter().map(|fault| format!("{fault}: {request:?}: {refused:?}")),
            );
        }
        if world.mutations().is_empty() {
            continue;
        }
        let after = state(&world).await;
        if after != before && answer.is_err() {
            found.push(format!("it was refused and has changed something: {request:?}: {answer:?}"));
        }
        for made in after.keys().filter(|id| id.starts_with("vol-") && !before.contains_key(*id)) {
            world.delete(made).await.expect("what was made can be deleted");
        }
        if after != before {
            things = Things::of(&world, Some(things)).await;
            before = state(&world).await;
        }
    }
    let first: Vec<String> = found.iter().take(12).map(|text| text.chars().take(3_000).collect()).collect();
    assert!(
        found.is_empty(),
        "RANDOM_REQUESTS_SEED={seed}: {} answers are not as they should be: {first:#?}",
        found.len()
    );
    for kind in RequestKind::ALL {
        let refused = answers.keys().any(|key| key.starts_with(&format!("{kind:?} ")) && !key.ends_with(" OK"));
        assert!(refused || kind.refuses_nothing(), "no {kind:?} was refused: {answers:#?}");
    }
}
