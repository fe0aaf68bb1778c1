use clap::CommandFactory;

use super::*;

fn parse(more: &[&str]) -> Cli {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let mut args = vec!["ebs-sim", "--state-dir", state.to_str().unwrap(), "--env-file", "/dev/null"];
    args.extend(["--devices", "none"]);
    args.extend(more);
    Cli::try_parse_from(args).unwrap()
}

#[test]
fn second_instance_must_be_in_another_zone() {
    let config = parse(&["--zone", "us-west-2b"]).config().unwrap().engine;
    assert_eq!(config.zone.as_str(), "us-west-2b");
    assert_eq!(config.second_zone.as_str(), "us-west-2a");
    let same = parse(&["--second-zone", "us-west-2a"]).config();
    assert!(matches!(same, Err(CliError::SameZone(_))));
}

#[test]
fn unknown_but_well_formed_instance_type_is_accepted() {
    assert!(parse(&["--instance-type", "x99.metal-24xl"]).config().is_ok());
    for bad in ["", "m5", "m5.", ".large", "m5.large; rm"] {
        assert!(parse(&["--instance-type", bad]).config().is_err(), "{bad:?} was accepted");
    }
}

#[test]
fn uncreatable_state_directory_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let mut cli = parse(&[]);
    cli.state_dir = file.join("below");
    let message = cli.config().unwrap_err().to_string();
    assert!(message.contains("--state-dir") && message.contains("below"), "{message}");
}

#[test]
fn listen_address_beyond_loopback_causes_a_warning() {
    assert!(parse(&["--ec2-listen", "127.0.0.1:0"]).warnings().is_empty());
    assert_eq!(parse(&["--ec2-listen", "0.0.0.0:0"]).warnings().len(), 1);
}

/// The program parses all files before it starts anything. Errors name the flag, the file and the field.
#[test]
fn config_files_are_parsed_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let limits = file("limits", r#"{"enabled":true,"rates":{"CreateVolume":{"capacity":1,"per_second":2}}}"#);
    let config = parse(&["--limits", &limits]).config().unwrap().engine;
    assert_eq!(config.limits.unwrap().rates["CreateVolume"].per_second, 2);
    assert_eq!(parse(&["--limits", "default"]).config().unwrap().engine.limits, Some(Limits::ec2()));
    assert_eq!(parse(&["--limits", "off"]).config().unwrap().engine.limits, Some(Limits::off()));
    let bad = file("bad", r#"{"enabled":true,"rates":{"CreateVolum":{"capacity":1,"per_second":2}}}"#);
    for (args, words) in [
        (&["--limits", &bad][..], ["--limits", "CreateVolum"]),
        (&["--limits", "/nowhere/limits"], ["--limits", "read: "]),
        (&["--account", &bad], ["--account", "enabled"]),
    ] {
        let error = parse(args).config().unwrap_err();
        let message = error.to_string();
        assert!(error.is_usage() && words.iter().all(|word| message.contains(word)), "{args:?}: {message}");
    }
}

#[test]
fn help_names_every_flag() {
    insta::assert_snapshot!(Cli::command().term_width(110).render_long_help().to_string());
}

#[test]
fn invalid_policy_file_is_usage_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let (good, bad) = (dir.path().join("good.json"), dir.path().join("bad.json"));
    fs::write(&good, crate::iam::Shipped::ManagedV2.text()).unwrap();
    fs::write(&bad, r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ec2:*","Resurce":"*"}]}"#)
        .unwrap();
    let (good, bad) = (good.to_str().unwrap(), bad.to_str().unwrap());
    let iam = parse(&["--policy", good, "--principal-tag", "team=red=blue"]).config().unwrap().engine.iam;
    assert_eq!((iam.policies.len(), iam.principal_tags["team"].as_str(), iam.audit), (1, "red=blue", false));
    assert!(parse(&["--audit-policies"]).config().unwrap().engine.iam.audit);
    let error = parse(&["--policy", good, "--policy", bad]).config().unwrap_err();
    let text = format!("{error}: {}", std::error::Error::source(&error).unwrap());
    assert!(error.is_usage() && text.contains(bad) && text.contains("statement 1, field Resurce"), "{text}");
}
