//! Tests of the program's open handles, which its metrics show.

use std::time::Duration;

use csi_proto::csi_proxy::{Group, disk, pipe_name};
use tokio::net::windows::named_pipe::{ClientOptions, NamedPipeClient};
use tokio::time::{Instant, sleep};

use crate::program::{LIMIT, Program, alone, connected};

const PROBES: u16 = 200;
/// Normal fluctuation in the number of handles: connections of the metrics endpoint, threads, and what a runtime keeps
/// of a closed connection.
const SLACK: f64 = 20.0;
/// Windows' error for a pipe without a free instance.
const BUSY: i32 = 231;

async fn handles(program: &Program) -> f64 {
    let page = program.metrics().await;
    let value =
        page.lines().find_map(|line| line.strip_prefix("process_open_fds ")).unwrap_or_else(|| panic!("{page}"));
    value.parse().unwrap()
}

async fn until(program: &Program, what: &str, wanted: impl Fn(f64) -> bool) {
    let end = Instant::now() + LIMIT;
    loop {
        let now = handles(program).await;
        if wanted(now) {
            return;
        }
        assert!(Instant::now() < end, "{now} handles long {what}");
        sleep(Duration::from_millis(100)).await;
    }
}

async fn probe(pipe: &str) -> NamedPipeClient {
    let end = Instant::now() + LIMIT;
    loop {
        match ClientOptions::new().open(pipe) {
            Ok(client) => return client,
            Err(error) => assert!(error.raw_os_error() == Some(BUSY) && Instant::now() < end, "{error}"),
        }
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn silent_connection_releases_its_handle_when_closed() {
    let _alone = alone().await;
    let program = Program::start(&["--api-groups=disk/v1", "--metrics-bind-address=127.0.0.1:0"]);
    let mut client = disk::v1::disk_client::DiskClient::new(connected(Group::Disk, "v1").await);
    client.rescan(disk::v1::RescanRequest {}).await.unwrap();
    let before = handles(&program).await;
    assert!(before > 0.0, "the system tells no handles");
    let pipe = pipe_name(Group::Disk, "v1".parse().unwrap());
    let mut probes = Vec::new();
    for _ in 0..PROBES {
        probes.push(probe(&pipe).await);
    }
    let all = before + f64::from(PROBES);
    until(&program, "with the connections", |now| now >= all - SLACK).await;
    drop(probes);
    until(&program, "after the connections", |now| now <= before + SLACK).await;
    client.rescan(disk::v1::RescanRequest {}).await.unwrap();
}
