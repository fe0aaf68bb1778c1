//! Tests of the simulator as a process: its command line, its env file, and its shutdown.

use std::path::Path;
use std::time::Duration;

use crate::support::process::Process;
use crate::support::request::{ec2, send};
use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn env_file_has_variables_for_clients() {
    let process = Process::start(&["--access-key", "AKIA:it's$a`secret"]);
    let env = process.env().await;
    for name in ["AWS_EC2_ENDPOINT", "AWS_EC2_METADATA_SERVICE_ENDPOINT", "EBS_SIM_CONTROL"] {
        assert!(env[name].starts_with("http://127.0.0.1:"), "{name}={}", env[name]);
    }
    assert_eq!(env["AWS_ENDPOINT_URL_EC2"], env["AWS_EC2_ENDPOINT"]);
    assert_eq!((env["AWS_REGION"].as_str(), env["AWS_ACCESS_KEY_ID"].as_str()), ("us-west-2", "AKIA"));
    assert_eq!(env["AWS_SECRET_ACCESS_KEY"], "it's$a`secret");
    assert!(env["EBS_SIM_INSTANCE_ID"].starts_with("i-"));
    assert_ne!(env["EBS_SIM_INSTANCE_ID"], env["EBS_SIM_SECOND_INSTANCE_ID"]);
    assert_eq!(
        Path::new(&env["EBS_SIM_DEVICES_DIR"]),
        process.dir.path().canonicalize().unwrap().join("state/devices")
    );
    process.signal(Signal::TERM);
    let (status, log) = process.end().await;
    assert!(status.success(), "{status}: {log}");
    assert!(log.contains("ready") && !log.contains("secret"), "{log}");
}

/// The exit code is 0, and the env file is removed.
#[tokio::test]
async fn signals_and_control_api_end_simulator_cleanly() {
    for how in ["SIGTERM", "SIGINT", "POST /shutdown"] {
        let process = Process::start(&[]);
        let env = process.env().await;
        let file = process.env_file();
        assert_eq!(ec2(&env["AWS_EC2_ENDPOINT"], "Action=DescribeVolumes").await.status, 200);
        match how {
            "SIGTERM" => process.signal(Signal::TERM),
            "SIGINT" => process.signal(Signal::INT),
            _ => assert_eq!(send(&env["EBS_SIM_CONTROL"], how, &[], "").await.status, 202),
        }
        let removed = async {
            while file.exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), removed).await.expect("no env file of a stopped simulator");
        let (status, log) = process.end().await;
        assert_eq!(status.code(), Some(0), "{how}: {log}");
    }
}

#[tokio::test]
async fn second_signal_ends_simulator_at_once() {
    let process = Process::start(&[]);
    let address = process.env().await["AWS_EC2_ENDPOINT"].strip_prefix("http://").unwrap().to_owned();
    // An incomplete request delays the clean shutdown until its grace period ends.
    let mut stuck = TcpStream::connect(&address).await.unwrap();
    let head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n";
    stuck.write_all(head).await.unwrap();
    // The server asks for the body, which shows that it has begun to process the request.
    let mut begun = [0; 12];
    stuck.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 100");
    // Equal signals that arrive together count as one.
    process.signal(Signal::TERM);
    process.signal(Signal::INT);
    let (status, log) = process.end().await;
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("ending immediately"), "{log}");
    drop(stuck);
}

/// The exit code is 2.
#[tokio::test]
async fn invalid_command_line_is_rejected_before_any_write() {
    for (args, word) in [
        (&["--zone", "us-west-2z"][..], "us-west-2a"),
        (&["--second-zone", "us-west-2a"], "--second-zone"),
        (&["--timing", "soon"], "realistic"),
        (&["--access-key", "no-colon"], "ID:SECRET"),
        (&["--ec2-listen", "here"], "--ec2-listen"),
        (&["--instance-type", "big"], "--instance-type"),
        (&["--volume", "1"], "--volume"),
    ] {
        let process = Process::start(args);
        let (file, state) = (process.env_file(), process.dir.path().join("state"));
        let (status, log) = process.end().await;
        assert_eq!(status.code(), Some(2), "{args:?}: {log}");
        assert!(log.contains(word), "{args:?}: {log}");
        assert!(!file.exists() && !state.exists(), "{args:?} left something behind");
    }
}
