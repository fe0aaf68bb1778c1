//! Generates the list of flags with which the chart refuses unknown arguments.

use std::path::Path;

use super::every_flag::flags_of;

/// The modes of the chart's containers.
const MODES: [&str; 3] = ["controller", "node", "metadataLabeler"];

fn list() -> String {
    let mut text =
        "# The flags of the driver by mode, for templates/_problems.tpl. Written by a test of ebs-csi-driver \
                    (EBS_WRITE_DOCS=1).\n"
            .to_owned();
    for mode in MODES {
        text.push_str(&format!("{mode}:\n"));
        let mut names: Vec<String> =
            flags_of(mode).iter().filter_map(|flag| flag.get_long().map(|name| format!("  - {name}\n"))).collect();
        names.sort();
        text.push_str(&names.concat());
    }
    text
}

/// `EBS_WRITE_DOCS=1` rewrites the file.
#[test]
fn chart_knows_the_flags_of_each_mode() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/aws-ebs-csi-driver/files/flags.yaml");
    if std::env::var_os("EBS_WRITE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(&file, list()).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap();
    assert!(there == list(), "{} is not as the code says: run this test with EBS_WRITE_DOCS=1", file.display());
}
