//! Lists all exhibits, grouped into rooms.

mod begun;
mod foreign;
mod places;
mod tables;
mod wiped;

use crate::exhibit::Exhibit;

/// Returns all exhibits with the names of their rooms.
pub(crate) fn all() -> Vec<(&'static str, Vec<Exhibit>)> {
    vec![
        ("ext2 to ext4 without their beginning", wiped::ext()),
        ("xfs without its beginning", wiped::xfs()),
        ("other file systems and encryption without their beginning", wiped::others()),
        ("half a superblock", begun::all()),
        ("partition tables", tables::partitions()),
        ("parts of something larger", tables::members()),
        ("encryption and swap", tables::secret()),
        ("file systems that the driver does not mount, by their tools", foreign::made_by_tools()),
        ("file systems that the driver does not mount, by their header", foreign::by_header()),
        ("data without a file system", foreign::plain()),
        ("one byte on a disk that is otherwise blank", places::all()),
    ]
}
