//! Runs a case of the bench on a small number of volumes. Needs the driver and the simulator next to xtask (`make test`
//! builds them).

use std::time::Duration;

use ebs_testkit::process::run_tool;
use serde_json::Value;

/// Time limit of the case, on a busy machine.
const BOUND: Duration = Duration::from_secs(300);

#[test]
fn volumes_case_writes_its_record_and_its_plot() {
    let dir = tempfile::tempdir().unwrap();
    let plots = dir.path().join("plots");
    let (dir, plots_arg) = (dir.path().to_str().unwrap(), plots.to_str().unwrap());
    let args = ["bench", "--cases=volumes", "--volumes=4", "--point-lives=1", "--commit=0123456789", "--dir", dir];
    run_tool(env!("CARGO_BIN_EXE_xtask"), &[&args[..], &["--plots", plots_arg]].concat(), BOUND).unwrap();
    let record: Value = serde_json::from_slice(&std::fs::read(plots.join("volumes.json")).unwrap()).unwrap();
    let point = &record["points"][0];
    assert_eq!(
        (&point["volumes"], &point["mutating_per_life"], &point["list_calls"]),
        (&4.into(), &4.0.into(), &1.into())
    );
    let [peak, resident, private] = ["list_peak", "resident", "private"].map(|name| point[name].as_f64().unwrap());
    assert!(peak > private && resident > private && private > 0.0, "{point}");
    let plot = std::fs::read_to_string(plots.join("volumes.svg")).unwrap();
    assert!(plot.contains("01234567, "), "the plot shows the commit");
}
