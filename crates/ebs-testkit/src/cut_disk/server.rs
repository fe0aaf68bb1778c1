//! The server process of the disks: one FUSE file each, in memory. It does no I/O on the loop devices above its files,
//! so a hanging device cannot prevent its end. It ends with the process that started it.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail};
use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change};

use super::fuse::{self, Errno, Kind, Tree};
use super::store::{Cut, Store};

/// Node directories have numbers from here on, disks from `FIRST_DISK` on.
const FIRST_NODE: u64 = 2;
const FIRST_DISK: u64 = 1000;

#[derive(Debug)]
struct Disk {
    name: String,
    store: Store,
    /// Whether it supports write-zeroes.
    can_zero: bool,
}

/// All disks, which are visible in every node's directory.
#[derive(Debug, Clone, Default)]
struct Disks(Arc<Mutex<Vec<Disk>>>);

impl Disks {
    fn lock(&self) -> MutexGuard<'_, Vec<Disk>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, node: u64, work: impl FnOnce(&mut Disk) -> Result<T, Errno>) -> Result<T, Errno> {
        let mut disks = self.lock();
        let index = node.checked_sub(FIRST_DISK).and_then(|index| usize::try_from(index).ok());
        work(index.and_then(|index| disks.get_mut(index)).ok_or(libc::ENOENT)?)
    }

    fn on_store<T>(&self, node: u64, work: impl FnOnce(&mut Store) -> io::Result<T>) -> Result<T, Errno> {
        self.with(node, |disk| work(&mut disk.store).map_err(|_| libc::EIO))
    }
}

impl Tree for Disks {
    fn lookup(&self, parent: u64, name: &str) -> Result<(u64, Kind), Errno> {
        let node = if parent == fuse::ROOT {
            name.parse::<u64>().ok().filter(|node| *node < FIRST_DISK - FIRST_NODE).map(|node| FIRST_NODE + node)
        } else {
            self.lock().iter().position(|disk| disk.name == name).map(|index| FIRST_DISK + index as u64)
        };
        let node = node.ok_or(libc::ENOENT)?;
        Ok((node, self.look(node)?))
    }

    fn look(&self, node: u64) -> Result<Kind, Errno> {
        if node < FIRST_DISK {
            return Ok(Kind::Directory);
        }
        self.with(node, |disk| Ok(Kind::File { bytes: disk.store.bytes() }))
    }

    fn read(&self, node: u64, offset: u64, length: u64) -> Result<Vec<u8>, Errno> {
        self.on_store(node, |store| store.read(offset, length))
    }

    fn write(&self, node: u64, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.on_store(node, |store| store.write(offset, bytes))
    }

    fn sync(&self, node: u64) -> Result<(), Errno> {
        self.on_store(node, Store::flush)
    }

    fn zero(&self, node: u64, offset: u64, length: u64) -> Result<(), Errno> {
        self.with(node, |disk| if disk.can_zero { Ok(()) } else { Err(libc::EOPNOTSUPP) })?;
        self.on_store(node, |store| store.zero(offset, length))
    }
}

/// Mounts the disks' files at a directory. Serves them and the client of the socket until that client disconnects.
///
/// # Errors
/// The mount or the socket fails.
pub fn serve(mount: &Path, socket: &Path) -> anyhow::Result<()> {
    let disks = Disks::default();
    let connection = fuse::connect(mount).context("mount the disks' files")?;
    leave_mounts(mount).context("leave the mounts of the caller")?;
    let served = disks.clone();
    // It ends with the process, together with the connection and every request that waits in the kernel.
    let _serving =
        std::thread::Builder::new().name("disks".to_owned()).spawn(move || fuse::serve(&connection, &served))?;
    let listener = UnixListener::bind(socket).context("the control socket")?;
    let (control, _) = listener.accept().context("accept the control connection")?;
    obey(&disks, &control).context("the control connection")
}

/// Moves this process into a new mount namespace without the disks' files and without mounts of loop devices. As the
/// last process of a namespace with mounts on its disks, it would unmount them at its end, and wait forever for
/// requests that it no longer serves: the kernel closes `/dev/fuse` only after that.
fn leave_mounts(mount: &Path) -> anyhow::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).context("unshare")?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .context("make all mounts private")?;
    let table = std::fs::read_to_string("/proc/self/mounts").context("read the mount table")?;
    let of_loops = table.lines().rev().filter(|line| line.starts_with("/dev/loop"));
    for target in of_loops.filter_map(|line| line.split(' ').nth(1)).map(Path::new).chain([mount]) {
        // A mount below another detached one is already gone.
        let _ = rustix::mount::unmount(target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    }
    Ok(())
}

fn obey(disks: &Disks, control: &UnixStream) -> anyhow::Result<()> {
    let mut answers = control.try_clone()?;
    for line in BufReader::new(control).lines() {
        let answer = match command(disks, &line?) {
            Ok(answer) => format!("ok {answer}\n"),
            Err(error) => format!("error {error:#}\n"),
        };
        answers.write_all(answer.as_bytes())?;
    }
    Ok(())
}

fn command(disks: &Disks, line: &str) -> anyhow::Result<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let mut disks = disks.lock();
    if let ["add", name, bytes, can_zero] = words[..] {
        let (store, can_zero) = (Store::new(bytes.parse()?), can_zero == "zeros");
        disks.push(Disk { name: name.to_owned(), store, can_zero });
        return Ok(String::new());
    }
    let name = words.get(1).context("a disk's name")?;
    let store = &mut disks.iter_mut().find(|disk| disk.name == *name).context("disk not found")?.store;
    match words[..] {
        ["size", _, bytes] => store.resize(bytes.parse()?),
        ["cut", _, seed] => return Ok(numbers(store.cut(seed.parse()?))),
        ["arm", _, seed, changes] => store.arm(seed.parse()?, changes.parse()?),
        ["disarm", _] => return Ok(store.disarm().map_or_else(String::new, numbers)),
        ["has-power", _] => return Ok(u8::from(store.has_power()).to_string()),
        ["power", _] => store.power_on(),
        ["flush", _] => store.flush()?,
        ["pull", _] => store.pull()?,
        ["plug", _] => store.plug(),
        ["wipe", _] => store.wipe(),
        ["flushes", _] => {
            let (flushes, unflushed) = store.flushes();
            return Ok(format!("{flushes} {unflushed}"));
        }
        _ => bail!("unknown command: {line}"),
    }
    Ok(String::new())
}

fn numbers(cut: Cut) -> String {
    format!("{} {} {}", cut.kept, cut.lost, cut.torn)
}
