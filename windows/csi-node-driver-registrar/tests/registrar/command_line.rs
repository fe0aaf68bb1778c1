//! Tests of the program's exit codes and output without a driver.

use anyhow::ensure;

use crate::program::{Sandbox, ends_with, program};

#[tokio::test]
async fn command_line_errors_have_exit_codes_and_texts() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let path = "--kubelet-registration-path=/x";
    for (nth, (line, code, says)) in [
        (&["--version"][..], 0, "csi-node-driver-registrar v"),
        (&["-version"], 0, "csi-node-driver-registrar v"),
        (&["--help"], 0, "--kubelet-registration-path <PATH>"),
        (&[path, "--mode=kubelet-registration-probe"], 0, ""),
        (&[], 1, "--kubelet-registration-path is missing"),
        (&["--mode=kubelet-registration-probe"], 1, "--kubelet-registration-path is missing"),
        (&[path, "--http-endpoint=:1", "--health-port=1"], 1, "--http-endpoint and --health-port"),
        (&[path, "--nope"], 2, "unknown flag --nope"),
        (&[path, "--csi-address=nowhere"], 2, "--csi-address"),
        (&[path, "--timeout=soon"], 2, "--timeout"),
    ]
    .into_iter()
    .enumerate()
    {
        let args = line.iter().map(|arg| (*arg).to_owned());
        let mut ended = program(sandbox.path(), &format!("command-{nth}"), args)?;
        let output = ends_with(&mut ended, code).await?;
        ensure!(output.contains(says) && output.is_empty() == says.is_empty(), "{line:?}: {output:?}");
    }
    Ok(())
}
