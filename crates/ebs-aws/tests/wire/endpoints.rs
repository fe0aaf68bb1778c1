//! Compares the endpoint of each service, in every region of every partition, with AWS's rule sets in botocore.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::model::boto3_python;
use crate::settings::where_a_child_calls;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/acceptance/endpoint_rules.py");

/// Returns the rows of the rule sets: region, FIPS, dual stack, and each service's URL.
fn published() -> Vec<Value> {
    assert!(Path::new(SCRIPT).exists(), "{SCRIPT} is missing");
    #[expect(clippy::disallowed_methods, reason = "botocore's rule engine is a program of its own")]
    let output = std::process::Command::new(boto3_python()).arg(SCRIPT).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn endpoints_match_the_rule_sets_of_aws() {
    let published = published();
    let partitions: BTreeSet<&str> = published.iter().map(|row| row["partition"].as_str().unwrap()).collect();
    assert!(partitions.len() >= 8, "{partitions:?}");
    let mut wrong = Vec::new();
    for (fips, dual_stack) in [(false, false), (false, true), (true, false), (true, true)] {
        let rows: BTreeMap<&str, &Value> = published
            .iter()
            .filter(|row| row["fips"] == fips && row["dual_stack"] == dual_stack)
            .map(|row| (row["region"].as_str().unwrap(), row))
            .collect();
        let regions: Vec<&str> = rows.keys().copied().collect();
        let text = |wanted: bool| if wanted { "true" } else { "false" };
        let environment = [("AWS_USE_FIPS_ENDPOINT", text(fips)), ("AWS_USE_DUALSTACK_ENDPOINT", text(dual_stack))];
        let called = where_a_child_calls(&regions, &environment);
        assert_eq!(called.len(), regions.len());
        for (region, row) in rows {
            let wanted: Vec<String> =
                ["ec2", "sts", "sagemaker"].map(|service| format!("{}/", row[service].as_str().unwrap())).into();
            if called[region] != wanted {
                wrong.push(format!(
                    "{region}, FIPS {fips}, dual stack {dual_stack}: {:?}, not {wanted:?}",
                    called[region]
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), published.len(), wrong.join("\n"));
}
