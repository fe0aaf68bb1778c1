//! Tests of documents, patterns, conditions and decisions, and of the shipped policies for the calls of a driver.

mod calls;
mod documents;
mod language;
mod tables;

use super::check::Check;
use super::decision::decide;
use super::document::Policy;
use ebs_ec2::Tags;

/// Parses a policy with one statement, which is given as JSON without its braces.
fn policy(statement: &str) -> Policy {
    document(&format!(r#"{{"Version":"2012-10-17","Statement":[{{{statement}}}]}}"#)).unwrap()
}

fn document(text: &str) -> Result<Policy, super::PolicyError> {
    Policy::parse("test", text)
}

fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn allows(policies: &[Policy], check: &Check) -> bool {
    allows_caller(policies, check, &Tags::new())
}

fn allows_caller(policies: &[Policy], check: &Check, caller: &Tags) -> bool {
    decide(policies.iter(), check, caller).is_ok()
}

const VOLUME: &str = "arn:aws:ec2:us-west-2:123456789012:volume/vol-0123456789abcdef0";
