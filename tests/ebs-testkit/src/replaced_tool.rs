//! Replaces a system tool with another program, for tests of how a tool ends.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::mount::{UnmountFlags, mount_bind, unmount};

use crate::run_dir::RunDir;

const TOOLS: &str = "/usr/sbin";

/// A replaced tool, until this value is dropped. Requires the test's own mount namespace; otherwise all processes would
/// see the replacement.
#[derive(Debug)]
pub struct ReplacedTool {
    tool: PathBuf,
    _program: tempfile::TempPath,
    /// Declared last, so that it is dropped last: this directory contains the program.
    _run: Arc<RunDir>,
}

impl ReplacedTool {
    pub fn by_script(tool: &str, script: &str) -> io::Result<Self> {
        Self::by(tool, &format!("#!/bin/sh\n{script}\n"))
    }

    pub fn by(tool: &str, contents: &str) -> io::Result<Self> {
        let run = RunDir::current()?;
        let program = tempfile::NamedTempFile::new_in(run.path())?.into_temp_path();
        std::fs::write(&program, contents)?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        let tool = Path::new(TOOLS).join(tool);
        mount_bind(&*program, &tool)?;
        Ok(Self { tool, _program: program, _run: run })
    }
}

impl Drop for ReplacedTool {
    fn drop(&mut self) {
        if let Err(error) = unmount(&self.tool, UnmountFlags::DETACH) {
            tracing::warn!(tool = %self.tool.display(), %error, "failed to restore a tool that a test replaced");
        }
    }
}
