//! Copies of files. If the file system supports it, a copy shares the blocks. Otherwise only data is copied, so that
//! holes remain holes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

const CHUNK: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copied {
    /// A point-in-time copy by the file system.
    ByReference,
    /// A copy in pieces, which may contain some concurrent writes and miss others.
    PieceByPiece,
}

/// Copies a file to another file, which it creates or truncates first.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<Copied> {
    let source = File::open(from)?;
    let target = OpenOptions::new().create(true).truncate(true).write(true).open(to)?;
    if rustix::fs::ioctl_ficlone(&target, &source).is_ok() {
        return Ok(Copied::ByReference);
    }
    let length = source.metadata()?.len();
    target.set_len(length)?;
    copy_data(&source, &target, length)?;
    Ok(Copied::PieceByPiece)
}

fn copy_data(source: &File, target: &File, length: u64) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    while at < length {
        let start = match rustix::fs::seek(source, SeekFrom::Data(at)) {
            Ok(start) => start,
            // There is no data from here to the end.
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(source, SeekFrom::Hole(start))?.min(length);
        at = start;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
            let got = source.read_at(&mut buffer[..wanted], at)?;
            if got == 0 {
                return Ok(());
            }
            target.write_all_at(&buffer[..got], at)?;
            at += u64::try_from(got).expect("at most a chunk");
        }
    }
    Ok(())
}
