//! boto3 and the Go SDK, unchanged, against a fresh simulator. The programs are in `acceptance/` at the root.

use std::path::{Path, PathBuf};
use std::process::Output;

use rustix::process::Signal;

use crate::support::child::{program, run};
use crate::support::process::Process;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../acceptance/boto3_acceptance.py");

fn python() -> PathBuf {
    let by_hand = "python3 -m venv DIR && DIR/bin/pip install -r acceptance/requirements.txt; DIR/bin/python is it";
    program("EBS_TEST_BOTO3_PYTHON", None, by_hand)
}

/// Runs a program with the environment that the env file gives to a shell.
async fn against(sim: &[&str], program: &Path, args: &[&str]) -> Output {
    let mut sim = Process::start(sim);
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

const SIGNED: [&str; 2] = ["--access-key", "AKIAACCEPTANCE:acceptance/secret+"];

/// boto3, with its own parameter validation, takes volumes, snapshots, instances, tags, copies, locks and fast restores
/// through whole lives, with its waiters and pages, and meets EC2's codes; every answer holds against botocore's model
/// of EC2 (names, places, types, enumerations, empty sets, times).
#[tokio::test]
async fn boto3_finds_the_simulator_as_it_finds_ec2() {
    assert_passed(&against(&SIGNED, &python(), &["-B", SCRIPT]).await);
}

#[tokio::test]
async fn boto3_works_with_temporary_credentials() {
    let sim = [&SIGNED[..], &["--session-token", "a/made+up=token"]].concat();
    let scenes =
        ["a_volume_lives_its_life", "nobody_gets_in_without_the_secret", "signed_links_work_until_they_expire"];
    assert_passed(&against(&sim, &python(), &[&["-B", SCRIPT], &scenes[..]].concat()).await);
}

/// With realistic timing one snapshot of a volume in 15 s, four modifications in 24 h and the buckets of describes are
/// kept; other people's clients see a throttle as one and get through by their own retries.
#[tokio::test]
async fn boto3_meets_ec2s_rate_limits_where_timing_is_realistic() {
    let sim = [&SIGNED[..], &["--timing", "realistic"]].concat();
    assert_passed(&against(&sim, &python(), &["-B", SCRIPT, "rates_are_limited"]).await);
}

/// A client of a simulator with a policy gets UnauthorizedOperation (403) for what the policy does not allow, dry runs
/// included, and nothing else.
#[tokio::test]
async fn boto3_is_held_to_the_policy_that_the_simulator_was_started_with() {
    const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/iam/managed-v2.json");
    let sim = [&SIGNED[..], &["--policy", POLICY]].concat();
    assert_passed(&against(&sim, &python(), &["-B", SCRIPT, "a_policy_is_kept"]).await);
}

/// The Go SDK, unchanged, finds pages, filters, waiters, dry runs, codes and idempotency as it finds them in EC2.
#[tokio::test]
async fn the_go_sdk_finds_the_simulator_as_it_finds_ec2() {
    let by_hand = "cd acceptance/go && go build -o FILE .; FILE is it";
    assert_passed(&against(&SIGNED, &program("EBS_TEST_GO_SDK", None, by_hand), &[]).await);
}

/// An acceptance program fails when a rule of EC2 is not kept.
#[tokio::test]
async fn the_acceptance_program_fails_where_a_rule_of_ec2_is_not_kept() {
    // Without a key of its own the simulator lets everybody in, which EC2 does not.
    let output = against(&[], &python(), &["-B", SCRIPT, "nobody_gets_in_without_the_secret"]).await;
    assert_eq!(output.status.code(), Some(1));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("was not refused with AuthFailure"), "{err}");
}
