//! Tests of the policy language: wildcards, variables, operators, and precedence of deny.

use proptest::prelude::*;

use super::{VOLUME, allows, allows_caller, policy, tags};
use crate::iam::check::Check;
use crate::iam::pattern::Pattern;

fn fits(pattern: &str, text: &str) -> bool {
    Pattern::parse(pattern, true).unwrap().fits(text, false, &|_| None) == Some(true)
}

#[test]
fn star_matches_any_text_and_question_mark_one_character() {
    let yes = [
        ("*", ""),
        ("*", "a"),
        ("a*c", "ac"),
        ("a*c", "abbc"),
        ("a*b*c", "a-b-b-c"),
        ("a?c", "aüc"),
        ("?", "ä"),
        ("${*}", "*"),
    ];
    let no =
        [("", "a"), ("a*c", "acb"), ("a?c", "ac"), ("?", ""), ("?", "ab"), ("${*}", "a"), ("${?}", "a"), ("a", "A")];
    assert!(yes.iter().all(|(pattern, text)| fits(pattern, text)), "{yes:?}");
    assert!(!no.iter().any(|(pattern, text)| fits(pattern, text)), "{no:?}");
}

proptest! {
    /// The matcher, which backtracks to one position, agrees with an exhaustive matcher.
    #[test]
    fn wildcards_match_like_a_recursive_matcher(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
        fn plain(pattern: &[u8], text: &[u8]) -> bool {
            match (pattern.split_first(), text.split_first()) {
                (None, None) => true,
                (Some((b'*', rest)), _) => (0..=text.len()).any(|skip| plain(rest, &text[skip..])),
                (Some((b'?', rest)), Some((_, tail))) => plain(rest, tail),
                (Some((wanted, rest)), Some((found, tail))) => wanted == found && plain(rest, tail),
                _ => false,
            }
        }
        prop_assert_eq!(fits(&pattern, &text), plain(pattern.as_bytes(), text.as_bytes()));
    }

    /// No document causes a panic.
    #[test]
    fn any_policy_text_is_parsed_or_rejected_without_panic(text in r#"[{}\[\]":,a-zA-Z$*/. ]{0,60}"#) {
        let _either = super::document(&text);
        let _either = super::document(&super::super::Shipped::ManagedV2.text().replacen("ec2:", &text, 1));
    }

    /// A statement that denies a check wins over one that allows it, in either order.
    #[test]
    fn explicit_deny_overrides_any_allow(action in prop::sample::select(vec!["ec2:DeleteVolume", "ec2:*", "*"]), deny_first: bool) {
        let allow = policy(&format!(r#""Effect":"Allow","Action":"{action}","Resource":"*""#));
        let deny = policy(r#""Effect":"Deny","Action":"ec2:Delete*","Resource":"*""#);
        let check = Check::new("ec2:DeleteVolume", VOLUME.to_owned());
        prop_assert!(allows(std::slice::from_ref(&allow), &check));
        let both = if deny_first { [deny, allow] } else { [allow, deny] };
        prop_assert!(!allows(&both, &check));
    }
}

/// A wildcard does not match a colon of an ARN.
#[test]
fn actions_and_resources_match_by_pattern_or_exclusion() {
    let volume = Check::new("ec2:DeleteVolume", VOLUME.to_owned());
    let table = [
        (r#""Action":"ec2:deletevolume","Resource":"*""#, true),
        (r#""Action":"ec2:Delete*","Resource":"arn:aws:ec2:*:*:volume/*""#, true),
        (r#""Action":"ec2:*","Resource":"arn:aws:ec2:us-west-2:123456789012:volume/vol-0123*""#, true),
        (r#""Action":"ec2:*","Resource":["arn:aws:ec2:*:*:snapshot/*","arn:aws:ec2:*:*:volume/*"]"#, true),
        (r#""NotAction":"ec2:CreateVolume","Resource":"*""#, true),
        (r#""Action":"ec2:*","NotResource":"arn:aws:ec2:*:*:snapshot/*""#, true),
        (r#""Action":"kms:*","Resource":"*""#, false),
        (r#""Action":"ec2:*","Resource":"arn:aws-cn:ec2:*:*:volume/*""#, false),
        (r#""Action":"ec2:*","Resource":"arn:aws:ec2:*:volume/*:x""#, false),
        (r#""Action":"ec2:*","Resource":"arn:aws:ec2:*:*:snapshot/*""#, false),
        (r#""NotAction":"ec2:Delete*","Resource":"*""#, false),
        (r#""Action":"ec2:*","NotResource":"arn:aws:ec2:*:*:volume/*""#, false),
    ];
    for (statement, expected) in table {
        let policy = policy(&format!(r#""Effect":"Allow",{statement}"#));
        assert_eq!(allows(&[policy], &volume), expected, "{statement}");
    }
}

/// Returns whether a condition holds for a request that adds `team=red` and `env=test` to a volume that has `owner=me`.
fn holds(condition: &str) -> bool {
    let policy =
        policy(&format!(r#""Effect":"Allow","Action":"ec2:CreateTags","Resource":"*","Condition":{{{condition}}}"#));
    let check = Check::new("ec2:CreateTags", VOLUME.to_owned())
        .with_request_tags(&[("team", "red"), ("env", "test")])
        .with_resource_tags(&tags(&[("owner", "me")]))
        .created_by("CreateVolume");
    allows_caller(&[policy], &check, &tags(&[("team", "red"), ("star", "*")]))
}

/// The table covers each condition operator, quantifier, IfExists and policy variable.
#[test]
fn each_condition_operator_works_as_in_iam() {
    let table = [
        (r#""StringEquals":{"aws:RequestTag/team":"red"}"#, true),
        (r#""StringEquals":{"AWS:requesttag/TEAM":"red"}"#, true),
        (r#""StringEquals":{"aws:RequestTag/team":"RED"}"#, false),
        (r#""StringEquals":{"aws:RequestTag/team":"r*"}"#, false),
        (r#""StringEquals":{"aws:RequestTag/team":["blue","red"]}"#, true),
        (r#""StringEquals":{"aws:RequestTag/none":"x"}"#, false),
        (r#""StringEqualsIfExists":{"aws:RequestTag/none":"x"}"#, true),
        (r#""StringEqualsIfExists":{"aws:RequestTag/team":"x"}"#, false),
        (r#""StringEqualsIgnoreCase":{"aws:RequestTag/team":"RED"}"#, true),
        (r#""StringNotEquals":{"aws:RequestTag/team":"red"}"#, false),
        (r#""StringNotEquals":{"aws:RequestTag/team":["red","blue"]}"#, false),
        (r#""StringNotEquals":{"aws:RequestTag/none":"red"}"#, true),
        (r#""StringNotEqualsIgnoreCase":{"aws:RequestTag/team":"RED"}"#, false),
        (r#""StringLike":{"aws:RequestTag/team":"r*"}"#, true),
        (r#""StringLike":{"aws:RequestTag/none":"*"}"#, false),
        (r#""StringNotLike":{"aws:RequestTag/team":"r*"}"#, false),
        (r#""Null":{"aws:RequestTag/team":"false"}"#, true),
        (r#""Null":{"aws:RequestTag/team":true}"#, false),
        (r#""Null":{"aws:RequestTag/none":"true"}"#, true),
        (r#""StringEquals":{"aws:ResourceTag/owner":"me"}"#, true),
        (r#""StringEquals":{"ec2:ResourceTag/owner":"me"}"#, true),
        (r#""StringEquals":{"ec2:CreateAction":["CreateSnapshot","CreateVolume"]}"#, true),
        (r#""StringEquals":{"ec2:CreateAction":"CopyVolumes"}"#, false),
        (r#""ForAllValues:StringEquals":{"aws:TagKeys":["team","env","more"]}"#, true),
        (r#""ForAllValues:StringEquals":{"aws:TagKeys":["team"]}"#, false),
        (r#""ForAnyValue:StringEquals":{"aws:TagKeys":["team"]}"#, true),
        (r#""ForAnyValue:StringEquals":{"aws:TagKeys":["other"]}"#, false),
        (r#""ForAllValues:StringNotEquals":{"aws:TagKeys":["other"]}"#, true),
        (r#""ForAllValues:StringNotEquals":{"aws:TagKeys":["other","env"]}"#, false),
        (r#""ForAnyValue:StringNotEquals":{"aws:TagKeys":["env"]}"#, true),
        (r#""ForAllValues:StringLike":{"aws:TagKeys":["t*","e*"]}"#, true),
        (r#""StringEquals":{"aws:RequestTag/team":"${aws:PrincipalTag/team}"}"#, true),
        (r#""StringEquals":{"aws:RequestTag/env":"${aws:PrincipalTag/team}"}"#, false),
        (r#""StringLike":{"aws:RequestTag/env":"${aws:PrincipalTag/star}"}"#, false),
        (r#""StringNotEquals":{"aws:RequestTag/env":"${aws:PrincipalTag/none}"}"#, false),
        (r#""StringEquals":{"aws:RequestTag/team":"red","aws:RequestTag/env":"live"}"#, false),
        (r#""StringEquals":{"aws:RequestTag/team":"red"},"StringLike":{"aws:RequestTag/env":"t?st"}"#, true),
    ];
    for (condition, expected) in table {
        assert_eq!(holds(condition), expected, "{condition}");
    }
}

#[test]
fn for_all_values_holds_without_tags_and_for_any_does_not() {
    let check = Check::new("ec2:DeleteTags", VOLUME.to_owned());
    let on = |condition: &str| {
        let policy =
            policy(&format!(r#""Effect":"Allow","Action":"ec2:*","Resource":"*","Condition":{{{condition}}}"#));
        allows(&[policy], &check)
    };
    assert!(on(r#""ForAllValues:StringNotEquals":{"aws:TagKeys":"a"}"#));
    assert!(!on(r#""ForAnyValue:StringNotEquals":{"aws:TagKeys":"a"}"#));
    assert!(!on(r#""Null":{"aws:TagKeys":"false"}"#));
}

#[test]
fn policy_variable_in_resource_takes_the_callers_value() {
    let policy =
        policy(r#""Effect":"Allow","Action":"ec2:*","Resource":"arn:aws:ec2:*:*:volume/${aws:PrincipalTag/volume}""#);
    let check = Check::new("ec2:DeleteVolume", VOLUME.to_owned());
    assert!(allows_caller(std::slice::from_ref(&policy), &check, &tags(&[("volume", "vol-0123456789abcdef0")])));
    assert!(!allows_caller(std::slice::from_ref(&policy), &check, &tags(&[("volume", "vol-*")])));
    assert!(!allows(&[policy], &check));
}
