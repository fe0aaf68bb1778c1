//! Tests of the csi-proxy project's own Go clients, unmodified, with Windows' pipes.

use std::collections::BTreeSet;
use std::io::Read;
use std::process::Command;

use csi_proto::csi_proxy::{Group, served};

use super::program::{Program, alone, connected, go_clients};

async fn all_served() {
    for (group, version) in served() {
        connected(group, &version.to_string()).await;
    }
}

fn said(mut command: Command) -> String {
    let mut child = command.spawn().unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    text
}

/// Calls that this machine may reject, with the text of the error. Either an earlier call has already had the effect,
/// or a field is missing that the clients cannot set. Every other call must succeed.
const REFUSALS: [(&str, &str, &str, &str); 13] = [
    ("filesystem", "IsMountPoint", "Unknown", "because it does not exist"),
    ("filesystem", "IsSymlink", "Unknown", "because it does not exist"),
    ("filesystem", "RmdirContents", "Unknown", "because it does not exist"),
    ("iscsi", "AddTargetPortal", "InvalidArgument", "target_portal is missing"),
    ("iscsi", "ConnectTarget", "InvalidArgument", "target_portal is missing"),
    ("iscsi", "DisconnectTarget", "InvalidArgument", "target_portal is missing"),
    ("iscsi", "DiscoverTargetPortal", "InvalidArgument", "target_portal is missing"),
    ("iscsi", "GetTargetDisks", "InvalidArgument", "target_portal is missing"),
    ("iscsi", "RemoveTargetPortal", "InvalidArgument", "target_portal is missing"),
    ("iscsi", "SetMutualChapSecret", "Unknown", "invalid CHAP secret: 0 bytes"),
    ("volume", "FormatVolume", "Unknown", "is already formatted"),
    ("volume", "GetVolumeIDFromMount", "Unknown", "(Get-Item -Path $Env:mountpath).Target, output: , error: <nil>"),
    (
        "volume",
        "GetVolumeIDFromTargetPath",
        "Unknown",
        "(Get-Item -Path $Env:mountpath).Target, output: , error: <nil>",
    ),
];

#[tokio::test]
async fn every_call_of_the_go_module_is_served() {
    let _alone = alone().await;
    let _program = Program::start(&[]);
    all_served().await;
    let text = said(go_clients(&["every"]));
    let (mut calls, mut wrong) = (BTreeSet::new(), Vec::new());
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let (version, call, code, message) = (words[0], words[1], words[2], words.get(3).copied().unwrap_or_default());
        let group = version.split('/').next().unwrap();
        let is_refusal = |known: &&(&str, &str, &str, &str)| (known.0, known.1, known.2) == (group, call, code);
        if code != "OK" && !REFUSALS.iter().find(is_refusal).is_some_and(|known| message.contains(known.3)) {
            wrong.push(line);
        }
        calls.insert(format!("{version}/{call}"));
    }
    assert!(wrong.is_empty(), "not served:\n{}", wrong.join("\n"));
    assert!(text.contains("volume/v1 FormatVolume OK"), "no version has formatted the volume:\n{text}");
    let rows =
        include_str!("../../../../crates/csi-proto/tests/contract.tsv").lines().map(|row| row.split('\t').collect());
    let all: BTreeSet<String> =
        rows.filter(|row: &Vec<&str>| row[3] == "request").map(|row| row[..3].join("/")).collect();
    assert_eq!(calls, all);
}

#[tokio::test]
async fn go_clients_are_served_despite_their_probe_connections() {
    let _alone = alone().await;
    let program = Program::start(&["--api-groups=disk/v1"]);
    connected(Group::Disk, "v1").await;
    assert_eq!(said(go_clients(&["churn", "1000"])), "done\n");
    assert_eq!(said(go_clients(&["together", "64"])), "done\n");
    let ends = program.records().iter().filter(|record| record["event"] == "call" && record["code"] == "OK").count();
    assert_eq!(ends, 1_064);
}
