use std::collections::BTreeSet;
use std::sync::Mutex;

use ebs_ec2::{Action, VolumeId, VolumeStatus};
use proptest::prelude::*;

use super::super::queries::Statuses;
use super::*;

fn id(n: u32) -> VolumeId {
    VolumeId::parse(&format!("vol-{n}")).unwrap()
}

fn status(volume: &VolumeId) -> VolumeStatus {
    VolumeStatus { volume: volume.clone(), details: Some(Vec::new()), estimate: None }
}

fn error(class: ErrorClass, message: impl Into<String>) -> Ec2Error {
    Ec2Error::new(Action::DescribeVolumeStatus, class, message)
}

async fn asked(
    keys: impl IntoIterator<Item = u32>,
    fails: impl Fn(&[VolumeId]) -> Option<Ec2Error> + Sync,
) -> (ResultsByKey<Statuses>, Vec<usize>) {
    let calls = Mutex::new(Vec::new());
    let answers = query::<Statuses, _>(keys.into_iter().map(id).collect(), |keys| {
        calls.lock().unwrap().push(keys.len());
        let answer = fails(&keys).map_or_else(|| Ok(keys.iter().map(status).collect()), Err);
        async move { answer }
    })
    .await;
    (answers, calls.into_inner().unwrap())
}

fn is_seen(answers: &ResultsByKey<Statuses>, n: u32) -> bool {
    matches!(&answers[&id(n)], Ok(found) if found.len() == 1)
}

#[tokio::test]
async fn missing_id_is_reported_absent_and_others_are_queried_again() {
    for class in [
        ErrorClass::VolumeNotFound,
        ErrorClass::SnapshotNotFound,
        ErrorClass::InstanceNotFound,
        ErrorClass::ModificationNotFound,
        ErrorClass::MalformedId,
    ] {
        let fails = |keys: &[VolumeId]| keys.contains(&id(7)).then(|| error(class, "The 'vol-7' does not exist."));
        let (answers, calls) = asked(0..100, fails).await;
        assert_eq!(calls, [100, 99]);
        assert!(matches!(&answers[&id(7)], Ok(found) if found.is_empty()));
        assert!((0..100).filter(|n| *n != 7).all(|n| is_seen(&answers, n)), "70 to 79 are not named by vol-7");
    }
}

#[tokio::test]
async fn error_goes_only_to_the_keys_that_it_names() {
    let (answers, calls) =
        asked(0..10, |keys| keys.contains(&id(3)).then(|| error(ErrorClass::Other, "vol-3, vol-5: not with these")))
            .await;
    assert_eq!(calls, [10, 8]);
    for n in 0..10 {
        assert_eq!(answers[&id(n)].is_err(), n == 3 || n == 5, "{n}");
    }
}

#[tokio::test]
async fn error_that_names_no_key_goes_to_the_key_that_fails_alone() {
    let (answers, calls) =
        asked(0..64, |keys| keys.contains(&id(33)).then(|| error(ErrorClass::InvalidParameter, "something is wrong")))
            .await;
    assert!((0..64).all(|n| answers[&id(n)].is_err() == (n == 33)));
    assert!(calls.len() <= 13, "{calls:?}");
}

#[tokio::test]
async fn error_independent_of_keys_goes_to_all_after_one_call() {
    for class in [
        ErrorClass::Throttled,
        ErrorClass::Ambiguous,
        ErrorClass::NotSent,
        ErrorClass::Unauthenticated,
        ErrorClass::Unauthorized,
        ErrorClass::BadToken,
    ] {
        let (answers, calls) = asked(0..50, |_| Some(error(class, "vol-1"))).await;
        assert_eq!(calls, [50]);
        assert!(answers.values().all(|answer| answer.as_ref().is_err_and(|e| e.class == class)));
    }
}

#[tokio::test]
async fn bisection_makes_at_most_32_calls_if_every_call_fails() {
    let (answers, calls) = asked(0..200, |_| Some(error(ErrorClass::Other, "no"))).await;
    assert!(answers.len() == 200 && answers.values().all(Result::is_err));
    assert!(calls.len() <= 32, "{}", calls.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn keys_that_the_error_does_not_name_get_their_answer(
        keys in proptest::collection::btree_set(0_u32..300, 1..200),
        bad in proptest::collection::btree_set(0_u32..300, 0..6),
        names_all in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let here: BTreeSet<u32> = keys.intersection(&bad).copied().collect();
        let (answers, _) = runtime.block_on(asked(keys.iter().copied(), |asked| {
            let named: Vec<String> = bad.iter().filter(|n| asked.contains(&id(**n))).map(|n| format!("vol-{n}")).collect();
            let named = if names_all { named.join(", ") } else { named.first().cloned().unwrap_or_default() };
            (!named.is_empty()).then(|| error(ErrorClass::VolumeNotFound, format!("The volumes '{named}' do not exist.")))
        }));
        prop_assert_eq!(answers.len(), keys.len());
        for n in keys {
            let absent = matches!(&answers[&id(n)], Ok(found) if found.is_empty());
            prop_assert!(absent == here.contains(&n) && (absent || is_seen(&answers, n)), "{n}");
        }
    }
}
