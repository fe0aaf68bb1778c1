use std::collections::BTreeSet;

use csi_proto::csi_proxy::served;

use super::*;

#[test]
fn table_has_exactly_the_methods_of_the_protocol_files() {
    let rows = include_str!("../../../../crates/csi-proto/tests/contract.tsv").lines();
    let expected: BTreeSet<String> = rows
        .map(|row| row.split('\t').collect::<Vec<_>>())
        .filter(|row| row[3] == "request")
        .map(|row| row[..3].join("/"))
        .collect();
    let mut found = BTreeSet::new();
    for (group, version) in served() {
        // Exclude methods that csi-proxy does not have but this project adds: they have a separate service.
        for method in methods(group, version).into_iter().filter(|method| method.service.is_none()) {
            assert!(
                found.insert(format!("{group}/{version}/{}", method.name)),
                "{group}/{version}/{} twice",
                method.name
            );
        }
    }
    assert_eq!(found, expected);
}
