//! Runs the demo, which tests the lifecycle of ext4, xfs and raw block volumes, including restore, expansion and a
//! crash. Needs root, and the driver next to xtask (`make test` builds both).

use std::time::Duration;

use ebs_testkit::process::run_tool;

/// Time limit of the demo, on a busy machine.
const BOUND: Duration = Duration::from_secs(900);

#[test]
fn demo_completes_every_step_and_leaves_nothing() {
    let output = run_tool(env!("CARGO_BIN_EXE_xtask"), &["demo"], BOUND).unwrap();
    assert_eq!(output.matches("  ✓ ").count(), 21, "{output}");
    assert!(output.ends_with("no loop device, link, mount or process\n"), "{output}");
}
