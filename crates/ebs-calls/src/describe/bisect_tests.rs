use std::collections::BTreeSet;
use std::sync::Mutex;

use ebs_ec2::{Action, VolumeStatus};
use ebs_types::VolumeId;
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

/// Asks an EC2 that answers as `fails` says, and otherwise shows everything. Returns the calls too.
async fn asked(
    keys: impl IntoIterator<Item = u32>,
    fails: impl Fn(&[VolumeId]) -> Option<Ec2Error> + Sync,
) -> (Answers<Statuses>, Vec<usize>) {
    let calls = Mutex::new(Vec::new());
    let answers = query::<Statuses, _>(keys.into_iter().map(id).collect(), |keys| {
        calls.lock().unwrap().push(keys.len());
        let answer = fails(&keys).map_or_else(|| Ok(keys.iter().map(status).collect()), Err);
        async move { answer }
    })
    .await;
    (answers, calls.into_inner().unwrap())
}

fn is_seen(answers: &Answers<Statuses>, n: u32) -> bool {
    matches!(&answers[&id(n)], Ok(found) if found.len() == 1)
}

/// An id that EC2 calls missing is absent and the rest of the batch is asked for again at once.
#[tokio::test]
async fn an_id_that_ec2_calls_missing_is_absent_and_the_others_are_asked_for_again_at_once() {
    let (answers, calls) = asked(0..100, |keys| {
        keys.contains(&id(7)).then(|| error(ErrorClass::VolumeNotFound, "The volume 'vol-7' does not exist."))
    })
    .await;
    assert_eq!(calls, [100, 99]);
    assert!(matches!(&answers[&id(7)], Ok(found) if found.is_empty()));
    assert!((0..100).filter(|n| *n != 7).all(|n| is_seen(&answers, n)), "70 to 79 are not named by vol-7");
}

/// A batch error is given to the keys that it names and to no other.
#[tokio::test]
async fn an_error_is_given_to_the_keys_that_it_names_and_to_no_other() {
    let (answers, calls) =
        asked(0..10, |keys| keys.contains(&id(3)).then(|| error(ErrorClass::Other, "vol-3, vol-5: not with these")))
            .await;
    assert_eq!(calls, [10, 8]);
    for n in 0..10 {
        assert_eq!(answers[&id(n)].is_err(), n == 3 || n == 5, "{n}");
    }
}

/// A batch error that names nobody is given to the key that fails alone.
#[tokio::test]
async fn an_error_that_names_nobody_is_given_to_the_key_that_fails_alone() {
    let (answers, calls) =
        asked(0..64, |keys| keys.contains(&id(33)).then(|| error(ErrorClass::InvalidParameter, "something is wrong")))
            .await;
    assert!((0..64).all(|n| answers[&id(n)].is_err() == (n == 33)));
    assert!(calls.len() <= 13, "{calls:?}");
}

#[tokio::test]
async fn an_error_that_concerns_no_key_is_everybodys_after_one_call() {
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

/// Looking for the owner of a batch error costs a bounded number of calls.
#[tokio::test]
async fn an_error_that_every_call_ends_with_costs_a_bounded_number_of_calls() {
    let (answers, calls) = asked(0..200, |_| Some(error(ErrorClass::Other, "no"))).await;
    assert!(answers.len() == 200 && answers.values().all(Result::is_err));
    assert!(calls.len() <= 32, "{}", calls.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whoever a batch error does not name gets its answer; an error about no key at all is everybody's after one call.
    #[test]
    fn whoever_is_not_named_gets_its_answer(
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
