//! Group filesystem. The context of old requests is ignored, and the error of old responses stays empty.

use super::{Around, Table, rows};
use crate::status::Failure;

pub(super) fn table() -> Table {
    let mut table = Table::new();
    with_errors(&mut table);
    without(&mut table);
    table
}

fn with_errors(table: &mut Table) {
    rows!(table, filesystem: v1alpha1 v1beta1 => {
        PathExists reads: PathExistsRequest, |request| Ok(request.path), exists,
            |exists| m::PathExistsResponse { error: String::new(), exists };
        Mkdir writes: MkdirRequest, |request| Ok(request.path), mkdir, |()| m::MkdirResponse { error: String::new() };
        Rmdir writes: RmdirRequest, |request| Ok((request.path, request.force)), rmdir,
            |()| m::RmdirResponse { error: String::new() };
        LinkPath writes: LinkPathRequest, |request| Ok((request.source_path, request.target_path)), link,
            |()| m::LinkPathResponse { error: String::new() };
        IsMountPoint reads: IsMountPointRequest, |request| Ok(request.path), is_link,
            |is_mount_point| m::IsMountPointResponse { error: String::new(), is_mount_point };
    });
}

fn without(table: &mut Table) {
    rows!(table, filesystem: v1beta2 v1 v2alpha1 => {
        PathExists reads: PathExistsRequest, |request| Ok(request.path), exists,
            |exists| m::PathExistsResponse { exists };
        Mkdir writes: MkdirRequest, |request| Ok(request.path), mkdir, |()| m::MkdirResponse {};
        Rmdir writes: RmdirRequest, |request| Ok((request.path, request.force)), rmdir, |()| m::RmdirResponse {};
        CreateSymlink writes: CreateSymlinkRequest, |request| Ok((request.source_path, request.target_path)), link,
            |()| m::CreateSymlinkResponse {};
        IsSymlink reads: IsSymlinkRequest, |request| Ok(request.path), is_link,
            |is_symlink| m::IsSymlinkResponse { is_symlink };
    });
    rows!(table, filesystem: v2alpha1 => {
        RmdirContents writes: RmdirContentsRequest, |request| Ok(request.path),
            |around, path| Ok(around.storage.rmdir_contents(&path)?), |()| m::RmdirContentsResponse {};
    });
}

fn exists(around: &Around<'_>, path: String) -> Result<bool, Failure> {
    Ok(around.storage.path_exists(&path)?)
}

fn mkdir(around: &Around<'_>, path: String) -> Result<(), Failure> {
    Ok(around.storage.mkdir(&path)?)
}

fn rmdir(around: &Around<'_>, (path, force): (String, bool)) -> Result<(), Failure> {
    Ok(around.storage.rmdir(&path, force)?)
}

fn link(around: &Around<'_>, (source, link): (String, String)) -> Result<(), Failure> {
    Ok(around.storage.create_symlink(&source, &link)?)
}

fn is_link(around: &Around<'_>, path: String) -> Result<bool, Failure> {
    Ok(around.storage.is_symlink(&path)?)
}
