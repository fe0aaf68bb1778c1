//! The server process of the disks: one FUSE file for each, in memory. It does no I/O on the loop devices above its
//! files, so a device that hangs cannot prevent its end. It ends with the process that started it.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, MountOption,
    OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, SessionACL,
    WriteFlags,
};
use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change};

use super::store::{Cut, Store};

/// Inode numbers of node directories start here, those of disks at `FIRST_DISK`.
const FIRST_NODE: u64 = 2;
const FIRST_DISK: u64 = 1000;
/// How long the kernel may cache names and sizes: not at all.
const UNCACHED: Duration = Duration::ZERO;
const MAX_WRITE: u32 = 1 << 20;

#[derive(Debug)]
struct Disk {
    name: String,
    store: Store,
    can_zero: bool,
}

/// All disks. The directory of every node shows all of them.
#[derive(Debug, Clone, Default)]
struct Disks(Arc<Mutex<Vec<Disk>>>);

impl Disks {
    fn lock(&self) -> MutexGuard<'_, Vec<Disk>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, node: INodeNo, work: impl FnOnce(&mut Disk) -> Result<T, Errno>) -> Result<T, Errno> {
        let mut disks = self.lock();
        let index = node.0.checked_sub(FIRST_DISK).and_then(|index| usize::try_from(index).ok());
        work(index.and_then(|index| disks.get_mut(index)).ok_or(Errno::ENOENT)?)
    }

    fn on_store<T>(&self, node: INodeNo, work: impl FnOnce(&mut Store) -> io::Result<T>) -> Result<T, Errno> {
        self.with(node, |disk| work(&mut disk.store).map_err(|_| Errno::EIO))
    }

    fn find(&self, parent: INodeNo, name: &str) -> Result<FileAttr, Errno> {
        let node = if parent == INodeNo::ROOT {
            name.parse::<u64>().ok().filter(|node| *node < FIRST_DISK - FIRST_NODE).map(|node| FIRST_NODE + node)
        } else {
            self.lock().iter().position(|disk| disk.name == name).map(|index| FIRST_DISK + index as u64)
        };
        self.attributes(INodeNo(node.ok_or(Errno::ENOENT)?))
    }

    fn attributes(&self, node: INodeNo) -> Result<FileAttr, Errno> {
        let (kind, perm, size) = if node.0 < FIRST_DISK {
            (FileType::Directory, 0o755, 0)
        } else {
            (FileType::RegularFile, 0o600, self.with(node, |disk| Ok(disk.store.bytes()))?)
        };
        let time = SystemTime::UNIX_EPOCH;
        let (ino, blocks) = (node, size.div_ceil(512));
        let (atime, mtime, ctime, crtime) = (time, time, time, time);
        let (nlink, uid, gid, rdev, blksize, flags) = (2, 0, 0, 0, 4096, 0);
        Ok(FileAttr {
            ino,
            size,
            blocks,
            atime,
            mtime,
            ctime,
            crtime,
            kind,
            perm,
            nlink,
            uid,
            gid,
            rdev,
            blksize,
            flags,
        })
    }
}

impl Filesystem for Disks {
    fn init(&mut self, _: &Request, config: &mut fuser::KernelConfig) -> io::Result<()> {
        config.set_max_write(MAX_WRITE).map(drop).map_err(|most| io::Error::other(format!("writes of {most} bytes")))
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent, &name.to_string_lossy()) {
            Ok(found) => reply.entry(&UNCACHED, &found, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(node) {
            Ok(found) => reply.attr(&UNCACHED, &found),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.on_store(node, |store| store.read(offset, size.into())) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.on_store(node, |store| store.write(offset, data));
        match written.and_then(|()| u32::try_from(data.len()).map_err(|_| Errno::EIO)) {
            Ok(length) => reply.written(length),
            Err(error) => reply.error(error),
        }
    }

    fn fsync(&self, _: &Request, node: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        done(self.on_store(node, Store::flush), reply);
    }

    /// Makes a range read as zeros. The loop device uses this for write-zeroes and discard.
    fn fallocate(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        _mode: i32,
        reply: ReplyEmpty,
    ) {
        let can_zero = self.with(node, |disk| if disk.can_zero { Ok(()) } else { Err(Errno::EOPNOTSUPP) });
        done(can_zero.and_then(|()| self.on_store(node, |store| store.zero(offset, length))), reply);
    }
}

fn done(outcome: Result<(), Errno>, reply: ReplyEmpty) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

/// Mounts the disks' files at a directory. Serves these files, and serves the client of the socket until the client
/// disconnects.
pub fn serve(mount: &Path, socket: &Path) -> anyhow::Result<()> {
    let disks = Disks::default();
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("ebs-cut-disk".to_owned())];
    config.acl = SessionACL::All;
    let session = Session::new(disks.clone(), mount, &config).context("mount the disks' files")?;
    leave_mounts(mount).context("detach from the mounts of the caller")?;
    // The session ends with the process. So do the connection and every request that waits in the kernel.
    let _serving = session.spawn().context("serve the disks' files")?;
    let listener = UnixListener::bind(socket).context("bind the control socket")?;
    let (control, _) = listener.accept().context("accept the control connection")?;
    obey(&disks, &control).context("serve the control connection")
}

/// Moves this process into a new mount namespace without mounts of the disks. Otherwise, as the last process of its
/// namespace, it would unmount them at its end and wait forever for requests that it no longer serves.
fn leave_mounts(mount: &Path) -> anyhow::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).context("unshare")?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .context("make all mounts private")?;
    let table = std::fs::read_to_string("/proc/self/mounts").context("read the mount table")?;
    let of_loops = table.lines().rev().filter(|line| line.starts_with("/dev/loop"));
    for target in of_loops.filter_map(|line| line.split(' ').nth(1)).map(Path::new).chain([mount]) {
        // The unmount fails for a mount below an already detached one.
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
