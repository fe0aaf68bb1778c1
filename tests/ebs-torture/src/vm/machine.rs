//! A QEMU virtual machine with an emulated processor, and QEMU's monitor (QMP), which plugs in its disks.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use ebs_testkit::process::{Process, ProcessSpec};
use serde_json::{Value, json};
use tokio::time::Instant;

const QEMU: &str = "/usr/bin/qemu-system-x86_64";
const MEMORY_MIB: &str = "1536";
const ROOT_BYTES: u64 = 64 << 20;
/// How long QEMU may take until its sockets are ready, on a busy machine.
const START: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub(super) struct Boot {
    pub(super) kernel: PathBuf,
    pub(super) initramfs: PathBuf,
    /// Arguments to append to the kernel's command line.
    pub(super) append: String,
    pub(super) directory: PathBuf,
}

#[derive(Debug)]
pub(super) struct Machine {
    process: Process,
    monitor: Monitor,
    console: PathBuf,
}

impl Machine {
    /// Boots a machine. Returns it, and the outer end of the serial line to the tests inside.
    pub(super) async fn boot(boot: &Boot) -> anyhow::Result<(Self, UnixStream)> {
        let at = |name: &str| boot.directory.join(name);
        let (monitor, line, console) = (at("monitor"), at("line"), at("console.log"));
        for socket in [&monitor, &line] {
            let _ = std::fs::remove_file(socket);
        }
        // Every machine has a root disk, which belongs to no test.
        let root = at("root");
        File::create(&root).and_then(|file| file.set_len(ROOT_BYTES)).context("create the machine's own disk")?;
        let socket = |id: &str, path: &Path| format!("socket,id={id},path={},server=on,wait=off", path.display());
        // Disable the NVMe timeout, as EBS requires, so that the kernel does not reset a disk that hangs.
        let append = format!(
            "console=ttyS0 rdinit=/init panic=-1 mitigations=off quiet nvme_core.io_timeout=4294967 {}",
            boot.append
        );
        let mut args: Vec<OsString> = ["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from).into();
        let pairs = [
            ("-accel", "tcg".into()),
            ("-machine", "pc".into()),
            ("-cpu", "max".into()),
            ("-smp", "1".into()),
            ("-m", MEMORY_MIB.into()),
            ("-display", "none".into()),
            // The guest's clock counts instructions, so that nothing in the guest times out on a busy machine.
            ("-icount", "shift=2,sleep=on,align=off".into()),
            ("-rtc", "clock=vm".into()),
            ("-kernel", boot.kernel.clone().into_os_string()),
            ("-initrd", boot.initramfs.clone().into_os_string()),
            ("-append", append.into()),
            ("-chardev", socket("qmp", &monitor).into()),
            ("-mon", "chardev=qmp,mode=control".into()),
            ("-chardev", format!("file,id=console,path={},append=on", console.display()).into()),
            ("-serial", "chardev:console".into()),
            ("-chardev", socket("line", &line).into()),
            ("-serial", "chardev:line".into()),
            ("-drive", format!("if=none,id=root,format=raw,file={}", root.display()).into()),
            ("-device", "nvme,drive=root,serial=vol00000000000000000".into()),
        ];
        for (name, value) in pairs {
            args.extend([name.into(), value]);
        }
        let spec = ProcessSpec {
            name: "qemu".to_owned(),
            program: QEMU.into(),
            args,
            env: BTreeMap::new(),
            log: at("qemu.log"),
        };
        let mut process = Process::spawn(spec).context("start QEMU (Debian package qemu-system-x86)")?;
        let line = connect(&line, &mut process).await?;
        let monitor = Monitor::greet(connect(&monitor, &mut process).await?)?;
        Ok((Self { process, monitor, console }, line))
    }

    /// Cuts the power: the guest loses its memory, and the disks keep what was written to them.
    pub(super) fn cut_power(mut self) -> anyhow::Result<()> {
        self.process.kill()
    }

    pub(super) fn monitor(&mut self) -> &mut Monitor {
        &mut self.monitor
    }

    pub(super) fn console_tail(&self, lines: usize) -> String {
        ebs_testkit::process::log_tail(&self.console, lines)
    }
}

async fn connect(path: &Path, process: &mut Process) -> anyhow::Result<UnixStream> {
    let deadline = Instant::now() + START;
    loop {
        if let Ok(stream) = UnixStream::connect(path) {
            return Ok(stream);
        }
        if let Some(status) = process.ended()? {
            bail!("QEMU exited with {status}: {}", process.log_tail(20));
        }
        if Instant::now() > deadline {
            bail!("QEMU does not listen at {}: {}", path.display(), process.log_tail(20));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[derive(Debug)]
pub(super) struct Monitor {
    from: BufReader<UnixStream>,
    to: UnixStream,
}

impl Monitor {
    fn greet(to: UnixStream) -> anyhow::Result<Self> {
        to.set_read_timeout(Some(ANSWER)).context("set a time limit for the monitor")?;
        let mut monitor = Self { from: BufReader::new(to.try_clone().context("open the monitor")?), to };
        monitor.line().context("read the monitor's greeting")?;
        monitor.execute("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    fn line(&mut self) -> anyhow::Result<Value> {
        let mut text = String::new();
        self.from.read_line(&mut text).context("read from the monitor")?;
        serde_json::from_str(&text).with_context(|| format!("unexpected reply of the monitor: {text:?}"))
    }

    pub(super) fn execute(&mut self, command: &str, arguments: &Value) -> anyhow::Result<Value> {
        let mut text = json!({ "execute": command, "arguments": arguments }).to_string();
        text.push('\n');
        self.to.write_all(text.as_bytes()).context("write to the monitor")?;
        loop {
            let answer = self.line()?;
            if let Some(value) = answer.get("return") {
                return Ok(value.clone());
            }
            if let Some(error) = answer.get("error") {
                bail!("{command}: {}", error["desc"].as_str().unwrap_or_default());
            }
        }
    }
}
