//! NVMe disks of a machine, as EBS presents volumes to an instance. A file keeps a disk's data until the run ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::identity;
use crate::machine::Machine;

/// QEMU reads the size of the file when a disk is plugged in. The file is larger than any volume, and the disk is
/// presented smaller.
const FILE: u64 = 1 << 40;
const GIB: u64 = 1 << 30;
/// How long the guest may take to release a disk.
const UNPLUG: Duration = Duration::from_secs(60);

/// The disks of a run, across all of its boots.
#[derive(Debug)]
pub struct Disks {
    directory: PathBuf,
    /// The sizes of plugged disks in bytes, by serial number.
    plugged: BTreeMap<String, u64>,
}

impl Disks {
    /// Creates disks with their files in a directory.
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), plugged: BTreeMap::new() }
    }

    /// Forgets the plugged disks after a power cut.
    pub fn forget(&mut self) {
        self.plugged.clear();
    }

    /// Plugs a disk in. With `hangs`, its reads do not return, including reads of the partition table.
    ///
    /// # Errors
    /// QEMU's error.
    pub fn plug(&mut self, machine: &mut Machine, serial: &str, gib: u64, hangs: bool) -> anyhow::Result<()> {
        let file = self.directory.join(serial);
        File::options().create(true).truncate(false).write(true).open(&file).and_then(|f| f.set_len(FILE))?;
        let monitor = machine.monitor();
        monitor.execute(
            "blockdev-add",
            &json!({ "driver": "raw", "node-name": serial, "file": {
                "driver": "file", "filename": file, "discard": "unmap", "cache": { "no-flush": true } } }),
        )?;
        // The guest must not see it before its identity is complete.
        standing_still(machine, |machine| {
            let device = json!({ "driver": "nvme", "id": serial, "drive": serial, "serial": serial });
            machine.monitor().execute("device_add", &device)?;
            if hangs {
                machine.monitor().execute("block_set_io_throttle", &throttle(serial, 1))?;
            }
            identity::rewrite(machine.pid(), serial, FILE, gib * GIB)
        })?;
        self.plugged.insert(serial.to_owned(), gib * GIB);
        Ok(())
    }

    /// Unplugs a disk and waits until the guest has released it.
    ///
    /// # Errors
    /// The guest does not release it.
    pub async fn unplug(&mut self, machine: &mut Machine, serial: &str) -> anyhow::Result<()> {
        machine.monitor().execute("device_del", &json!({ "id": serial }))?;
        let deadline = Instant::now() + UNPLUG;
        let gone = json!({ "node-name": serial });
        while let Err(error) = machine.monitor().execute("blockdev-del", &gone) {
            if Instant::now() > deadline {
                return Err(error).context("the guest does not release it");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.plugged.remove(serial);
        Ok(())
    }

    /// Enlarges a disk. The guest sees that at its next Identify.
    ///
    /// # Errors
    /// It is not plugged in.
    pub fn grow(&mut self, machine: &mut Machine, serial: &str, gib: u64) -> anyhow::Result<()> {
        let old = *self.plugged.get(serial).context("it is not plugged in")?;
        standing_still(machine, |machine| identity::rewrite(machine.pid(), serial, old, gib * GIB))?;
        self.plugged.insert(serial.to_owned(), gib * GIB);
        Ok(())
    }

    /// Makes its writes and flushes fail from now on.
    ///
    /// # Errors
    /// QEMU's error.
    pub fn fail_writes(machine: &mut Machine, serial: &str) -> anyhow::Result<()> {
        let rules: Vec<Value> =
            ["write", "flush"].iter().map(|kind| json!({ "event": "none", "iotype": kind, "errno": 5 })).collect();
        let failing = format!("{serial}-fails");
        let node = json!({ "driver": "blkdebug", "node-name": failing, "image": serial, "inject-error": rules });
        machine.monitor().execute("blockdev-add", &node)?;
        attach(machine, serial, &failing)
    }

    /// Ends the failures.
    ///
    /// # Errors
    /// QEMU's error.
    pub fn heal(machine: &mut Machine, serial: &str) -> anyhow::Result<()> {
        attach(machine, serial, serial)?;
        machine.monitor().execute("blockdev-del", &json!({ "node-name": format!("{serial}-fails") })).map(drop)
    }

    /// Lets its reads return from now on.
    ///
    /// # Errors
    /// QEMU's error.
    pub fn release(machine: &mut Machine, serial: &str) -> anyhow::Result<()> {
        machine.monitor().execute("block_set_io_throttle", &throttle(serial, 0)).map(drop)
    }
}

fn attach(machine: &mut Machine, serial: &str, node: &str) -> anyhow::Result<()> {
    let to = json!({ "path": format!("/machine/peripheral/{serial}"), "property": "drive", "value": node });
    machine.monitor().execute("qom-set", &to).map(drop)
}

/// Limits bytes per second; 0 means no limit. At one byte per second the first read succeeds, and the next does not
/// return.
fn throttle(serial: &str, bytes_a_second: u64) -> Value {
    json!({ "id": serial, "bps": bytes_a_second, "bps_rd": 0, "bps_wr": 0, "iops": 0, "iops_rd": 0, "iops_wr": 0 })
}

/// Runs something while the guest is paused.
fn standing_still<T>(
    machine: &mut Machine,
    change: impl FnOnce(&mut Machine) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    machine.monitor().execute("stop", &json!({}))?;
    let done = change(machine);
    machine.monitor().execute("cont", &json!({}))?;
    done
}
