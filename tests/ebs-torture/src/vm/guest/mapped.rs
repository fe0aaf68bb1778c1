//! An NVMe disk over the device mapper, which can fail and grow. The driver rejects a device-mapper device because it
//! is not an EBS volume. So the guest exports it to itself as an NVMe disk (NVMe over TCP) with a volume's serial
//! number.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::csi_client::Access;
use ebs_testkit::process::run_tool;

use super::node::{Disk, Node, until};

const TARGET: &str = "/sys/kernel/config/nvmet";
const SUBSYSTEM: &str = "nqn.2026-01.test:mapped";
const MAPPED: &str = "mapped";
/// Sectors of 512 bytes in a GiB.
const GIB: u64 = 2 << 20;
/// The size of the disk below, to which the mapped disk can grow.
const MOST_GIB: u64 = 3;
const BOUND: Duration = Duration::from_secs(60);
const MODULES: [&str; 7] = ["configfs", "dm-mod", "dm-flakey", "nvmet", "nvmet-tcp", "nvme-fabrics", "nvme-tcp"];

/// The plugged disk of 1 GiB. There is only one at a time.
pub(super) struct MappedDisk<'a> {
    pub(super) disk: Disk<'a>,
    /// The disk with its blocks. Its name does not belong to any volume.
    below: Disk<'a>,
}

impl<'a> MappedDisk<'a> {
    pub(super) async fn plug(node: &'a Node, fs_type: &str) -> anyhow::Result<Self> {
        for module in MODULES {
            let file = format!("/modules/{module}.ko");
            let is_loaded = Path::new("/sys/module").join(module.replace('-', "_")).exists();
            if Path::new(&file).exists() && !is_loaded {
                run_tool("/usr/bin/insmod", &[&file], BOUND)?;
            }
        }
        let (disk, below) = (node.volume(&Access::Mount(fs_type.to_owned()))?, node.volume(&Access::Block)?);
        below.plug_size(MOST_GIB)?;
        below.is_plugged().await?;
        let mapped = Self { disk, below };
        dmsetup(&["create", MAPPED, "--table", &mapped.table("linear", 1, "0")?])?;
        mapped.serve()?;
        mapped.disk.is_plugged().await?;
        Ok(mapped)
    }

    /// Makes its reads and writes fail from now on.
    pub(super) fn fail(&self) -> anyhow::Result<()> {
        // It works for 0 s, and then fails for an hour.
        self.reload(&self.table("flakey", 1, "0 0 3600")?)
    }

    /// Ends the failures.
    pub(super) fn heal(&self) -> anyhow::Result<()> {
        self.reload(&self.table("linear", 1, "0")?)
    }

    /// Enlarges it to 3 GiB. The target notifies the guest's NVMe driver by an event, as EBS does.
    pub(super) fn grow(&self) -> anyhow::Result<()> {
        self.reload(&self.table("linear", MOST_GIB, "0")?)?;
        write(&namespace().join("revalidate_size"), "1")
    }

    pub(super) async fn unplug(self) -> anyhow::Result<()> {
        let controller = self.disk.controller()?.context("its controller")?;
        write(&controller.join("delete_controller"), "1")?;
        until("the disk disappears", || Ok(self.disk.controller()?.is_none())).await?;
        std::fs::remove_file(port().join("subsystems").join(SUBSYSTEM)).context("stop serving")?;
        write(&namespace().join("enable"), "0")?;
        for made in [port(), namespace(), subsystem()] {
            std::fs::remove_dir(&made).with_context(|| format!("remove {}", made.display()))?;
        }
        dmsetup(&["remove", MAPPED])?;
        self.below.unplug()
    }

    fn table(&self, target: &str, gib: u64, arguments: &str) -> anyhow::Result<String> {
        Ok(format!("0 {} {target} /dev/{} {arguments}", gib * GIB, self.below.name()?))
    }

    fn reload(&self, table: &str) -> anyhow::Result<()> {
        dmsetup(&["reload", MAPPED, "--table", table])?;
        // Requests in flight finish as they would have.
        dmsetup(&["suspend", "--nolockfs", MAPPED])?;
        dmsetup(&["resume", MAPPED])
    }

    fn serve(&self) -> anyhow::Result<()> {
        if !Path::new(TARGET).exists() {
            let args = ["-t", "configfs", "config", "/sys/kernel/config"];
            run_tool("/usr/bin/mount", &args, BOUND).context("the kernel's configuration")?;
        }
        let node = std::fs::read_dir("/sys/block")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mapped = node.into_iter().find(|name| name.starts_with("dm-")).context("a mapped device")?;
        make(&subsystem())?;
        write(&subsystem().join("attr_allow_any_host"), "1")?;
        write(&subsystem().join("attr_serial"), &self.disk.serial)?;
        make(&namespace())?;
        write(&namespace().join("device_path"), &format!("/dev/{mapped}"))?;
        write(&namespace().join("enable"), "1")?;
        make(&port())?;
        let address =
            [("addr_adrfam", "ipv4"), ("addr_trtype", "tcp"), ("addr_traddr", "127.0.0.1"), ("addr_trsvcid", "4420")];
        for (name, value) in address {
            write(&port().join(name), value)?;
        }
        std::os::unix::fs::symlink(subsystem(), port().join("subsystems").join(SUBSYSTEM)).context("serve it")?;
        let connect = format!("transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn={SUBSYSTEM}");
        write(Path::new("/dev/nvme-fabrics"), &connect)
    }
}

fn subsystem() -> PathBuf {
    Path::new(TARGET).join("subsystems").join(SUBSYSTEM)
}

fn namespace() -> PathBuf {
    subsystem().join("namespaces/1")
}

fn port() -> PathBuf {
    Path::new(TARGET).join("ports/1")
}

fn make(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir(directory).with_context(|| format!("make {}", directory.display()))
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    // One write, as the kernel requires for each of these files.
    std::fs::write(file, text).with_context(|| format!("write {text:?} to {}", file.display()))
}

fn dmsetup(args: &[&str]) -> anyhow::Result<()> {
    // udev is not running here, so dmsetup must not wait for it.
    let args = [["--noudevsync", "--noudevrules"].as_slice(), args].concat();
    let said = run_tool("/usr/sbin/dmsetup", &args, BOUND)?;
    ensure!(said.trim().is_empty(), "dmsetup: {said}");
    Ok(())
}
