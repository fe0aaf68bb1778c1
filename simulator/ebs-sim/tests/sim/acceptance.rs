//! Tests with unmodified boto3 and Go SDK against a fresh simulator. The programs are in `tests/acceptance/` at the
//! root of the repository.

use std::path::{Path, PathBuf};
use std::process::Output;

use rustix::process::Signal;

use crate::support::child::{program, run};
use crate::support::process::Process;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/acceptance/boto3_acceptance.py");

fn python() -> PathBuf {
    let by_hand =
        "python3 -m venv DIR && DIR/bin/pip install -r tests/acceptance/requirements.txt; DIR/bin/python is it";
    program("EBS_TEST_BOTO3_PYTHON", by_hand)
}

async fn against(sim: &[&str], program: &Path, args: &[&str]) -> Output {
    let sim = Process::start(sim);
    let mut env = sim.env().await;
    for (name, value) in [
        ("HOME", "/nonexistent"),
        ("AWS_CONFIG_FILE", "/nonexistent/config"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials"),
        ("NO_PROXY", "127.0.0.1"),
    ] {
        env.insert(name.to_owned(), value.to_owned());
    }
    let output = run(program, args, &env).await;
    sim.signal(Signal::TERM);
    let (status, log) = sim.end().await;
    assert!(status.success(), "{status}: {log}");
    output
}

fn assert_passed(output: &Output) {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
}

const SIGNED: [&str; 2] = ["--access-key", "AKIAACCEPTANCE:tests/acceptance/secret+"];

/// Every reply is compared with botocore's model of EC2 (names, places, types, enumerations, empty sets, times).
#[tokio::test]
async fn boto3_works_as_with_ec2() {
    assert_passed(&against(&SIGNED, &python(), &["-B", SCRIPT]).await);
}

#[tokio::test]
async fn boto3_works_with_session_token() {
    let sim = [&SIGNED[..], &["--session-token", "a/made+up=token"]].concat();
    let scenes =
        ["a_volume_lives_its_life", "nobody_gets_in_without_the_secret", "signed_links_work_until_they_expire"];
    assert_passed(&against(&sim, &python(), &[&["-B", SCRIPT], &scenes[..]].concat()).await);
}

/// The limits are one snapshot of a volume in 15 s, four modifications in 24 h, and the token buckets of describes.
/// Third-party clients recognise throttling, and their retries succeed.
#[tokio::test]
async fn boto3_gets_rate_limits_of_ec2_with_realistic_timing() {
    let sim = [&SIGNED[..], &["--timing", "realistic"]].concat();
    assert_passed(&against(&sim, &python(), &["-B", SCRIPT, "rates_are_limited"]).await);
}

/// Calls that the policy does not allow fail with UnauthorizedOperation (403), including dry runs.
#[tokio::test]
async fn boto3_gets_403_for_calls_outside_of_the_policy() {
    const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/iam/managed-v2.json");
    let sim = [&SIGNED[..], &["--policy", POLICY]].concat();
    assert_passed(&against(&sim, &python(), &["-B", SCRIPT, "a_policy_is_kept"]).await);
}

/// The test covers pages, filters, waiters, dry runs, error codes and idempotency.
#[tokio::test]
async fn go_sdk_gets_the_responses_of_ec2() {
    let by_hand = "cd tests/acceptance/go && go build -o FILE .; FILE is it";
    assert_passed(&against(&SIGNED, &program("EBS_TEST_GO_SDK", by_hand), &[]).await);
}

#[tokio::test]
async fn acceptance_program_fails_when_simulator_violates_a_rule() {
    // Without a configured key, the simulator accepts any client. EC2 never does.
    let output = against(&[], &python(), &["-B", SCRIPT, "nobody_gets_in_without_the_secret"]).await;
    assert_eq!(output.status.code(), Some(1));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("was not refused with AuthFailure"), "{err}");
}
