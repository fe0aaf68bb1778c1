//! Runs a test in a mount namespace of its own: its mounts are seen by nobody else and end with it, also on panic.

use std::future::Future;
use std::thread;

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountPropagationFlags, mount_change};

use crate::loop_device::refuse_unless_root;

/// Runs `test` on a thread of its own in a private mount namespace, inside a current-thread tokio runtime. Threads and
/// children that it starts inherit the namespace; `/proc/thread-self` shows it, `/proc/self` does not.
///
/// The future must not leave tasks behind: they end with the runtime, before the namespace does.
///
/// # Panics
/// With the test's own panic; and with a clear message when the process is not root or may not unshare.
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

/// Moves this thread, and it alone, into a new namespace from which nothing propagates.
fn enter() {
    refuse_unless_root("a private mount namespace").expect("this test cannot run");
    // A thread that shares its working directory and root with others may not change its mount namespace.
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
    fn a_mount_is_seen_inside_and_nowhere_else() {
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
    fn the_panic_of_a_test_is_its_own() {
        in_mount_namespace(|| async { panic!("on purpose") });
    }
}
