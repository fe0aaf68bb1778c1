//! Tests that the parser rejects invalid policies and names the place of the error.

use super::document;
use crate::iam::{Extra, Policy, Shipped};

fn refused(text: &str) -> String {
    let error = document(text).expect_err(text);
    let mut message = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    message
}

fn of(statement: &str) -> String {
    format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Action":"ec2:*","Resource":"*"}},{{{statement}}}]}}"#
    )
}

/// Returns a document whose second statement allows everything, with one more field.
fn with(field: &str) -> String {
    of(&format!(r#""Effect":"Allow","Action":"ec2:*","Resource":"*",{field}"#))
}

/// Returns a document whose second statement has this condition.
fn on(condition: &str) -> String {
    with(&format!(r#""Condition":{{{condition}}}"#))
}

#[test]
fn unsupported_element_is_rejected_with_statement_and_field() {
    let table = [
        (with(r#""Sid":"Odd","Wen":1"#), ["statement 2 (Odd)", "field Wen"]),
        (of(r#""Effect":"allow","Action":"ec2:*","Resource":"*""#), ["statement 2", "field Effect"]),
        (of(r#""Effect":"Allow","Resource":"*""#), ["statement 2, field Action", "NotAction"]),
        (with(r#""NotAction":"ec2:*""#), ["field Action", "exactly one"]),
        (of(r#""Effect":"Allow","Action":"DeleteVolume","Resource":"*""#), ["field Action", "service:Action"]),
        (of(r#""Effect":"Allow","Action":[],"Resource":"*""#), ["field Action", "empty list"]),
        (of(r#""Effect":"Allow","Action":[7],"Resource":"*""#), ["field Action", "is 7, not text"]),
        (of(r#""Effect":"Allow","Action":"ec2:*","Resource":"volume/*""#), ["field Resource", "ARN"]),
        (with(r#""Principal":"*""#), ["field Principal", "identity-based"]),
        (with(r#""Condition":[]"#), ["field Condition", "not a JSON object"]),
        (
            on(r#""NumericLessThan":{"ec2:VolumeSize":"5"}"#),
            ["field Condition.NumericLessThan.ec2:VolumeSize", "StringEquals"],
        ),
        (on(r#""StringEquals":{"aws:SourceIp":"::1"}"#), ["StringEquals.aws:SourceIp", "unsupported condition key"]),
        (on(r#""StringEquals":{"aws:TagKeys":"a"}"#), ["Condition.StringEquals.aws:TagKeys", "ForAllValues"]),
        (on(r#""Null":{"aws:TagKeys":"perhaps"}"#), ["Condition.Null.aws:TagKeys", "true"]),
        (on(r#""ForSome:StringEquals":{"aws:TagKeys":"a"}"#), ["Condition.ForSome:StringEquals", "ForAnyValue"]),
        (on(r#""StringEquals":{"aws:RequestTag/a":"${aws:PrincipalTag/b"}"#), ["aws:RequestTag/a", "closing brace"]),
        (r#"{"Version":"2012-10-17","Statement":"all"}"#.to_owned(), ["field Statement", "list"]),
        (r#"{"Version":"2008-10-17","Statement":[]}"#.to_owned(), ["field Version", "2012-10-17"]),
        (r#"{"Statement":[]}"#.to_owned(), ["field Version", "2012-10-17"]),
        (r#"{"Version":"2012-10-17","Statement":[],"Name":"x"}"#.to_owned(), ["field Name", "unknown"]),
        ("[]".to_owned(), ["document", "not a JSON object"]),
        ("{".to_owned(), ["test", "not JSON"]),
    ];
    for (text, says) in table {
        let message = refused(&text);
        assert!(says.iter().all(|word| message.contains(word)), "{text}\n{message}");
    }
}

#[test]
fn unreadable_policy_file_is_named() {
    let message = Policy::read(std::path::Path::new("/nowhere/policy.json")).unwrap_err().to_string();
    assert!(message.contains("/nowhere/policy.json"), "{message}");
}

#[test]
fn single_statement_or_string_is_accepted_without_a_list() {
    let text = r#"{"Version":"2012-10-17","Id":"one","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}"#;
    assert_eq!(document(text).unwrap().statements.len(), 1);
}

#[test]
fn shipped_documents_are_valid_and_deny_nothing() {
    let texts = Shipped::ALL.map(|p| (p.name(), p.text())).into_iter().chain(Extra::ALL.map(|e| (e.name(), e.text())));
    for (name, text) in texts {
        let policy = Policy::parse(name, text).unwrap();
        // Optional statements are independent only if no document denies what another one allows.
        assert!(policy.statements.iter().all(|statement| statement.allows), "{name}");
    }
}
