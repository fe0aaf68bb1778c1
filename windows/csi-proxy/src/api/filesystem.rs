//! API group `filesystem`. The context in old requests is ignored, and the error field of old responses stays empty.

use super::{Table, rows};

type Link = (String, String);

pub(super) fn table() -> Table {
    let mut table = Table::new();
    rows!(table, filesystem: v1alpha1 v1beta1 v1beta2 v1 v2alpha1 => {
        Mkdir writes: MkdirRequest, |request| Ok(request.path),
            |around, path: String| around.storage.mkdir(&path) => MkdirResponse;
        Rmdir writes: RmdirRequest, |request| Ok((request.path, request.force)),
            |around, (path, force): (String, bool)| around.storage.rmdir(&path, force) => RmdirResponse;
    });
    rows!(table, filesystem: v1alpha1 v1beta1 => {
        PathExists reads: PathExistsRequest, |request| Ok(request.path),
            |around, path: String| around.storage.path_exists(&path),
            |exists| m::PathExistsResponse { error: String::new(), exists };
        LinkPath writes: LinkPathRequest, |request| Ok((request.source_path, request.target_path)),
            |around, link: Link| around.storage.create_symlink(&link.0, &link.1) => LinkPathResponse;
        IsMountPoint reads: IsMountPointRequest, |request| Ok(request.path),
            |around, path: String| around.storage.is_symlink(&path),
            |is_mount_point| m::IsMountPointResponse { error: String::new(), is_mount_point };
    });
    rows!(table, filesystem: v1beta2 v1 v2alpha1 => {
        PathExists reads: PathExistsRequest, |request| Ok(request.path),
            |around, path: String| around.storage.path_exists(&path), |exists| m::PathExistsResponse { exists };
        CreateSymlink writes: CreateSymlinkRequest, |request| Ok((request.source_path, request.target_path)),
            |around, link: Link| around.storage.create_symlink(&link.0, &link.1) => CreateSymlinkResponse;
        IsSymlink reads: IsSymlinkRequest, |request| Ok(request.path),
            |around, path: String| around.storage.is_symlink(&path),
            |is_symlink| m::IsSymlinkResponse { is_symlink };
    });
    rows!(table, filesystem: v2alpha1 => {
        RmdirContents writes: RmdirContentsRequest, |request| Ok(request.path),
            |around, path: String| around.storage.rmdir_contents(&path) => RmdirContentsResponse;
    });
    table
}
