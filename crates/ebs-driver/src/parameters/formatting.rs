//! How a new file system is to be made, and which options fit which capability (`controller.md` 6.4).

use std::collections::HashMap;

use crate::capability::Access;

use super::ParameterError;

/// Options for mkfs. They travel to the node in the volume context, under the lower-cased keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Formatting {
    /// Block size in bytes, as text for mkfs.
    pub block_size: Option<String>,
    /// Inode size in bytes.
    pub inode_size: Option<String>,
    /// Bytes for each inode.
    pub bytes_per_inode: Option<String>,
    /// Number of inodes.
    pub number_of_inodes: Option<String>,
    /// ext4's bigalloc.
    pub bigalloc: bool,
    /// Cluster size with bigalloc.
    pub cluster_size: Option<String>,
    /// ext4's encryption feature.
    pub encryption_support: bool,
}

/// Which file systems know an option.
#[derive(Clone, Copy)]
enum Fits {
    Ext4Only,
    Ext,
    ExtAndXfs,
}

impl Fits {
    /// Empty and unknown file systems fit: the node decides again.
    fn fits(self, fs_type: &str) -> bool {
        match fs_type {
            "ext4" => true,
            "ext3" => !matches!(self, Self::Ext4Only),
            "xfs" => matches!(self, Self::ExtAndXfs),
            "ntfs" => false,
            _ => true,
        }
    }
}

impl Formatting {
    /// Key, file systems and value of every option, in the order in which they are checked.
    fn rows(&self) -> [(&'static str, Fits, Option<&str>); 7] {
        let flag = |set: bool| set.then_some("true");
        [
            ("blocksize", Fits::ExtAndXfs, self.block_size.as_deref()),
            ("inodesize", Fits::ExtAndXfs, self.inode_size.as_deref()),
            ("bytesperinode", Fits::Ext, self.bytes_per_inode.as_deref()),
            ("numberofinodes", Fits::Ext, self.number_of_inodes.as_deref()),
            ("ext4bigalloc", Fits::Ext4Only, flag(self.bigalloc)),
            ("ext4clustersize", Fits::Ext4Only, self.cluster_size.as_deref()),
            ("ext4encryptionsupport", Fits::Ext4Only, flag(self.encryption_support)),
        ]
    }

    /// Refuses options that a capability rules out.
    ///
    /// # Errors
    /// [`ParameterError::Formatting`] for the first option that does not fit, then
    /// [`ParameterError::ClusterSizeWithoutBigalloc`].
    pub fn check(&self, accesses: &[Access]) -> Result<(), ParameterError> {
        for (key, fits, value) in self.rows() {
            if value.is_none() {
                continue;
            }
            for access in accesses {
                let with = match access {
                    Access::Block => "a raw block volume".to_owned(),
                    Access::Unset => {
                        "a capability that asks neither for a file system nor for a block volume".to_owned()
                    }
                    Access::Mount { fs_type } if !fits.fits(fs_type) => format!("file system {fs_type}"),
                    Access::Mount { .. } => continue,
                };
                return Err(ParameterError::Formatting { key, with });
            }
        }
        if self.cluster_size.is_some() && !self.bigalloc {
            return Err(ParameterError::ClusterSizeWithoutBigalloc);
        }
        Ok(())
    }

    /// Puts what is set into a volume context.
    pub fn write_to(&self, context: &mut HashMap<String, String>) {
        for (key, _, value) in self.rows() {
            if let Some(value) = value {
                context.insert(key.to_owned(), value.to_owned());
            }
        }
    }
}
