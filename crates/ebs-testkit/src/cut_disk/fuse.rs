//! The part of the kernel's FUSE protocol (linux/fuse.h, 7.31) that a directory of disks needs, directly on /dev/fuse.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::mount::{MountFlags, mount};

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const DESTROY: u32 = 38;
const BATCH_FORGET: u32 = 42;
const FALLOCATE: u32 = 43;

/// Maximum bytes of one write. The kernel also needs it in pages.
const MAX_WRITE: u32 = 1 << 20;
const MAX_PAGES: u16 = 256;
/// Writes larger than a page, and an explicit number of pages.
const INIT_FLAGS: u32 = (1 << 5) | (1 << 22);
const REQUEST_HEADER: usize = 40;
/// Bypasses the kernel's cache of files.
const DIRECT_IO: u32 = 1;
const DIRECTORY: u32 = 0o040_755;
const REGULAR_FILE: u32 = 0o100_600;

/// The node number of the root directory.
pub(super) const ROOT: u64 = 1;
/// The error number in a failed reply.
pub(super) type Errno = i32;

/// The kind of a node.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Directory,
    File { bytes: u64 },
}

/// A directory of disks, as the kernel accesses it. The kernel caches nothing.
pub(super) trait Tree {
    fn lookup(&self, parent: u64, name: &str) -> Result<(u64, Kind), Errno>;
    fn look(&self, node: u64) -> Result<Kind, Errno>;
    fn read(&self, node: u64, offset: u64, length: u64) -> Result<Vec<u8>, Errno>;
    fn write(&self, node: u64, offset: u64, bytes: &[u8]) -> Result<(), Errno>;
    fn sync(&self, node: u64) -> Result<(), Errno>;
    /// Makes a range read as zeros.
    fn zero(&self, node: u64, offset: u64, length: u64) -> Result<(), Errno>;
}

/// Mounts a new connection at a directory. Requests of the kernel are read from the returned file.
pub(super) fn connect(at: &Path) -> io::Result<File> {
    let connection = File::options().read(true).write(true).open("/dev/fuse")?;
    let data = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other\0", connection.as_raw_fd());
    let data = std::ffi::CStr::from_bytes_with_nul(data.as_bytes()).map_err(io::Error::other)?;
    mount("ebs-cut-disk", at, "fuse", MountFlags::NOSUID | MountFlags::NODEV, Some(data))?;
    Ok(connection)
}

/// Serves requests until the connection ends.
pub(super) fn serve(connection: &File, tree: &impl Tree) -> io::Result<()> {
    let mut buffer = vec![0; MAX_WRITE as usize + 8192];
    let mut connection = connection;
    loop {
        let length = match connection.read(&mut buffer) {
            Ok(length) => length,
            Err(error) => match error.raw_os_error() {
                // The request was interrupted before it was read.
                Some(libc::EINTR | libc::ENOENT | libc::EAGAIN) => continue,
                Some(libc::ENODEV) => return Ok(()),
                _ => return Err(error),
            },
        };
        let request = Request::read(&buffer[..length]).ok_or_else(|| io::Error::other("incomplete request"))?;
        let answer = match request.code {
            FORGET | BATCH_FORGET | INTERRUPT => continue,
            DESTROY => return Ok(()),
            _ => answer(tree, &request).unwrap_or(Err(libc::EIO)),
        };
        let (error, body) = match answer {
            Ok(body) => (0, body),
            Err(error) => (error, Vec::new()),
        };
        let mut out = Message::default();
        out.u32(u32::try_from(16 + body.len()).map_err(io::Error::other)?);
        out.0.extend_from_slice(&(-error).to_le_bytes());
        out.u64(request.unique);
        out.0.extend_from_slice(&body);
        match connection.write_all(&out.0) {
            // The caller of the request is gone.
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => return Err(error),
            _ => {}
        }
    }
}

struct Request<'a> {
    code: u32,
    unique: u64,
    node: u64,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let body = bytes.get(REQUEST_HEADER..)?;
        Some(Self { code: u32_at(bytes, 4)?, unique: u64_at(bytes, 8)?, node: u64_at(bytes, 16)?, body })
    }
}

/// Handles a request. Returns `None` if the request is too short.
fn answer(tree: &impl Tree, request: &Request<'_>) -> Option<Result<Vec<u8>, Errno>> {
    let (node, body) = (request.node, request.body);
    let offset = || u64_at(body, 8);
    Some(match request.code {
        INIT => Ok(init(u32_at(body, 8)?)),
        LOOKUP => {
            let name = String::from_utf8_lossy(body.strip_suffix(&[0])?);
            tree.lookup(node, &name).map(|(node, kind)| entry(node, kind))
        }
        GETATTR => tree.look(node).map(|kind| {
            let mut out = Message(vec![0; 16]);
            out.attributes(node, kind);
            out.0
        }),
        OPEN => {
            let mut out = Message(vec![0; 8]);
            out.u32(DIRECT_IO);
            out.u32(0);
            Ok(out.0)
        }
        READ => tree.read(node, offset()?, u32_at(body, 16)?.into()),
        WRITE => {
            let length = u32_at(body, 16)?;
            let bytes = body.get(40..)?.get(..length as usize)?;
            tree.write(node, offset()?, bytes).map(|()| [length.to_le_bytes(), [0; 4]].concat())
        }
        FSYNC => tree.sync(node).map(|()| Vec::new()),
        FALLOCATE => tree.zero(node, offset()?, u64_at(body, 16)?).map(|()| Vec::new()),
        STATFS => Ok(vec![0; 80]),
        FLUSH | RELEASE => Ok(Vec::new()),
        _ => Err(libc::ENOSYS),
    })
}

fn init(readahead: u32) -> Vec<u8> {
    let mut out = Message::default();
    for number in [7, 31, readahead, INIT_FLAGS] {
        out.u32(number);
    }
    out.0.extend_from_slice(&[0; 4]);
    out.u32(MAX_WRITE);
    out.u32(1);
    out.0.extend_from_slice(&MAX_PAGES.to_le_bytes());
    out.0.resize(64, 0);
    out.0
}

fn entry(node: u64, kind: Kind) -> Vec<u8> {
    let mut out = Message::default();
    out.u64(node);
    out.0.extend_from_slice(&[0; 32]);
    out.attributes(node, kind);
    out.0
}

#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn attributes(&mut self, node: u64, kind: Kind) {
        let (bytes, mode) = match kind {
            Kind::Directory => (0, DIRECTORY),
            Kind::File { bytes } => (bytes, REGULAR_FILE),
        };
        for number in [node, bytes, bytes.div_ceil(512), 0, 0, 0] {
            self.u64(number);
        }
        for number in [0, 0, 0, mode, 2, 0, 0, 0, 4096, 0] {
            self.u32(number);
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
