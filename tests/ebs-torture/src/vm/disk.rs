//! NVMe disks of a machine, with the serial numbers of EBS volumes. A file keeps the data of an unplugged disk.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::machine::Machine;

/// How long the guest may take to release a disk.
const UNPLUG: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Disks {
    directory: PathBuf,
}

impl Disks {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Plugs a disk in. With `hangs`, its reads do not return, including reads of the partition table.
    pub(super) fn plug(&self, machine: &mut Machine, serial: &str, gib: u64, hangs: bool) -> anyhow::Result<()> {
        let file = self.directory.join(serial);
        File::options().create(true).truncate(false).write(true).open(&file).and_then(|f| f.set_len(gib << 30))?;
        let node = json!({ "driver": "raw", "node-name": serial, "file": {
            "driver": "file", "filename": file, "discard": "unmap", "cache": { "no-flush": true } } });
        let device = json!({ "driver": "nvme", "id": serial, "drive": serial, "serial": serial });
        let monitor = machine.monitor();
        monitor.execute("blockdev-add", &node)?;
        if !hangs {
            return monitor.execute("device_add", &device).map(drop);
        }
        // Stop the guest, so that it does not read from the disk before the disk hangs.
        monitor.execute("stop", &json!({}))?;
        let plugged = monitor.execute("device_add", &device);
        let plugged = plugged.and_then(|_| monitor.execute("block_set_io_throttle", &throttle(serial, 1)));
        monitor.execute("cont", &json!({}))?;
        plugged.map(drop)
    }

    /// Unplugs a disk and waits until the guest has released it.
    pub(super) async fn unplug(machine: &mut Machine, serial: &str) -> anyhow::Result<()> {
        machine.monitor().execute("device_del", &json!({ "id": serial }))?;
        let deadline = Instant::now() + UNPLUG;
        let gone = json!({ "node-name": serial });
        while let Err(error) = machine.monitor().execute("blockdev-del", &gone) {
            if Instant::now() > deadline {
                return Err(error).context("the guest does not release it");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    pub(super) fn fail_writes(machine: &mut Machine, serial: &str) -> anyhow::Result<()> {
        let rules: Vec<Value> =
            ["write", "flush"].iter().map(|kind| json!({ "event": "none", "iotype": kind, "errno": 5 })).collect();
        let failing = format!("{serial}-fails");
        let node = json!({ "driver": "blkdebug", "node-name": failing, "image": serial, "inject-error": rules });
        machine.monitor().execute("blockdev-add", &node)?;
        attach(machine, serial, &failing)
    }

    pub(super) fn heal(machine: &mut Machine, serial: &str) -> anyhow::Result<()> {
        attach(machine, serial, serial)?;
        machine.monitor().execute("blockdev-del", &json!({ "node-name": format!("{serial}-fails") })).map(drop)
    }

    pub(super) fn release(machine: &mut Machine, serial: &str) -> anyhow::Result<()> {
        machine.monitor().execute("block_set_io_throttle", &throttle(serial, 0)).map(drop)
    }
}

fn attach(machine: &mut Machine, serial: &str, node: &str) -> anyhow::Result<()> {
    let to = json!({ "path": format!("/machine/peripheral/{serial}"), "property": "drive", "value": node });
    machine.monitor().execute("qom-set", &to).map(drop)
}

/// Limits bytes per second; 0 means no limit. At one byte per second, only the first read returns.
fn throttle(serial: &str, bytes_a_second: u64) -> Value {
    json!({ "id": serial, "bps": bytes_a_second, "bps_rd": 0, "bps_wr": 0, "iops": 0, "iops_rd": 0, "iops_wr": 0 })
}
