//! Splits the result of a describe for several keys into a result for each key.

use std::collections::BTreeMap;

use ebs_ec2::{Ec2Error, ErrorClass};

use super::queries::DescribeQuery;

const MAX_CALLS: u32 = 16;

pub(super) type ResultsByKey<Q> = BTreeMap<<Q as DescribeQuery>::Key, ebs_ec2::Result<Vec<<Q as DescribeQuery>::Item>>>;

/// Queries all keys, which must be distinct. EC2 fails the whole call for one bad key. The keys that the error names
/// get the error, or an empty result if they are missing or malformed, and the others are queried again. If the error
/// names no key, the keys are bisected until each failing key is isolated.
pub(super) async fn query<Q: DescribeQuery, F>(
    keys: Vec<Q::Key>,
    call: impl Fn(Vec<Q::Key>) -> F + Send,
) -> ResultsByKey<Q>
where
    F: Future<Output = ebs_ec2::Result<Vec<Q::Item>>> + Send,
{
    let mut answers = ResultsByKey::<Q>::new();
    let mut pending = vec![keys];
    let mut calls = 0;
    while let Some(keys) = pending.pop() {
        calls += 1;
        let error = match call(keys.clone()).await {
            Ok(items) => {
                answers.extend(keys.into_iter().map(|key| (key, Ok(Vec::new()))));
                group_by_key::<Q>(items, &mut answers);
                continue;
            }
            Err(e) => e,
        };
        let (mut named, mut rest): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| is_named_by(&error, key));
        if concerns_all_keys(error.class) || calls >= MAX_CALLS || (named.is_empty() && rest.len() == 1) {
            named.append(&mut rest);
        }
        if named.is_empty() {
            pending.push(rest.split_off(rest.len() / 2));
        }
        answers.extend(named.into_iter().map(|key| (key, answer_to_named(&error))));
        if !rest.is_empty() {
            pending.push(rest);
        }
    }
    answers
}

fn group_by_key<Q: DescribeQuery>(items: Vec<Q::Item>, answers: &mut ResultsByKey<Q>) {
    for item in items {
        if let Some(key) = Q::key(&item)
            && let Some(Ok(found)) = answers.get_mut(&key)
        {
            found.push(item);
        }
    }
}

fn answer_to_named<T>(error: &Ec2Error) -> ebs_ec2::Result<Vec<T>> {
    match error.class {
        ErrorClass::VolumeNotFound
        | ErrorClass::SnapshotNotFound
        | ErrorClass::InstanceNotFound
        | ErrorClass::ModificationNotFound
        | ErrorClass::MalformedId => Ok(Vec::new()),
        _ => Err(error.clone()),
    }
}

fn concerns_all_keys(class: ErrorClass) -> bool {
    matches!(
        class,
        ErrorClass::Throttled
            | ErrorClass::Ambiguous
            | ErrorClass::NotSent
            | ErrorClass::Unauthenticated
            | ErrorClass::Unauthorized
            | ErrorClass::AccountState
            | ErrorClass::BadToken
    )
}

/// Returns true if EC2's message contains the key as a whole word.
fn is_named_by(error: &Ec2Error, key: &impl std::fmt::Display) -> bool {
    let key = key.to_string();
    let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '-');
    !key.is_empty()
        && error.message.match_indices(&key).any(|(at, _)| {
            let (before, after) = (&error.message[..at], &error.message[at + key.len()..]);
            !in_word(before.chars().next_back()) && !in_word(after.chars().next())
        })
}

#[cfg(test)]
#[path = "bisect_tests.rs"]
mod tests;
