//! Runs a test in a private mount namespace. Its mounts are not visible outside and end with the namespace, even after
//! a panic.

use std::future::Future;
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change};
use tokio::time::Instant;

use crate::loop_device::refuse_unless_root;

/// Runs `test` on a new thread in a private mount namespace, in a current-thread tokio runtime. Threads and children
/// that it starts inherit the namespace. `/proc/thread-self` shows the namespace, `/proc/self` does not.
///
/// The future must not leave tasks behind: they end with the runtime, before the namespace.
///
/// # Panics
/// If the test panics, the process is not root, or it cannot unshare.
pub fn in_mount_namespace<F, T>(test: F)
where
    F: FnOnce() -> T + Send + 'static,
    T: Future<Output = ()>,
{
    let runner = thread::Builder::new().name("mount-namespace".to_owned());
    let thread = runner.spawn(move || {
        enter();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime on this thread");
        runtime.block_on(test());
    });
    if let Err(panic) = thread.expect("a thread for the test").join() {
        std::panic::resume_unwind(panic);
    }
}

/// Unmounts the topmost mount at a path, which must not be in use. The mount may be busy for a moment, because a child
/// that another test has just forked inherits all open files until its exec.
/// # Panics
/// If the mount is still busy after 10 s, or the unmount fails for another reason.
pub async fn unmount(at: impl AsRef<Path>) {
    let (at, bound) = (at.as_ref(), Instant::now() + Duration::from_secs(10));
    loop {
        match rustix::mount::unmount(at, UnmountFlags::empty()) {
            Ok(()) => return,
            Err(Errno::BUSY) if Instant::now() < bound => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("cannot unmount {}: {error}", at.display()),
        }
    }
}

/// Moves only this thread into a new mount namespace, from which no mounts propagate.
pub fn enter() {
    refuse_unless_root("a private mount namespace").expect("this test cannot run");
    // A thread that shares its working directory and root with others cannot change its mount namespace.
    unshare(CloneFlags::CLONE_FS).expect("leave the file-system attributes shared with the other threads");
    unshare(CloneFlags::CLONE_NEWNS).expect("a new mount namespace needs CAP_SYS_ADMIN");
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).expect("make every mount of the new namespace private");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_mounted(table: &str, at: &std::path::Path) -> bool {
        let text = std::fs::read_to_string(table).unwrap();
        text.lines().any(|line| line.split(' ').nth(4) == at.to_str())
    }

    #[test]
    fn mount_is_visible_only_inside_the_namespace() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().canonicalize().unwrap();
        let inside = at.clone();
        in_mount_namespace(move || async move {
            rustix::mount::mount("none", &inside, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
            assert!(is_mounted("/proc/thread-self/mountinfo", &inside));
            let there = inside.clone();
            let seen = tokio::task::spawn_blocking(move || is_mounted("/proc/thread-self/mountinfo", &there)).await;
            assert!(seen.unwrap(), "blocking threads share the namespace");
        });
        assert!(!is_mounted("/proc/thread-self/mountinfo", &at));
    }

    #[test]
    #[should_panic(expected = "on purpose")]
    fn panic_of_the_test_is_propagated() {
        in_mount_namespace(|| async { panic!("on purpose") });
    }
}
