//! The call that detects the contents of a disk. This project has added it, on the pipe of disk/v1.

use csi_proto::csi_proxy::contents::v1::{Contents as Kind, GetDiskContentsResponse, SERVICE};
use winstorage::service::Contents;
use winstorage::types::DiskNumber;

use super::{Method, Table, rows};

pub(super) fn methods() -> impl Iterator<Item = Method> {
    let mut table = Table::new();
    rows!(table, contents: v1 => {
        GetDiskContents reads: GetDiskContentsRequest, |request| Ok((DiskNumber(request.disk_number), request.seed)),
            |around, (disk, seed): (DiskNumber, String)| around.storage.disk_contents(disk, &seed), give;
    });
    table.into_iter().map(|(_, method)| Method { service: Some(SERVICE), ..method })
}

fn give(contents: Contents) -> GetDiskContentsResponse {
    let answer = |kind: Kind| GetDiskContentsResponse { contents: kind.into(), ..Default::default() };
    match contents {
        Contents::Blank => answer(Kind::Blank),
        Contents::Offline => answer(Kind::OfflinePartition),
        Contents::Coming => answer(Kind::ComingVolume),
        Contents::BlankVolume(volume) => {
            GetDiskContentsResponse { volume_id: volume.to_string(), ..answer(Kind::BlankVolume) }
        }
        Contents::FileSystem(volume) => {
            GetDiskContentsResponse { volume_id: volume.to_string(), ..answer(Kind::FileSystem) }
        }
        Contents::Foreign(description) => GetDiskContentsResponse { description, ..answer(Kind::Foreign) },
    }
}
