//! Compares the files in `proto/csi-proxy` with the interface of csi-proxy's released clients, field by field.
//!
//! `contract.tsv` was written from the released interface, independently of the files. Its columns are: group, version,
//! call or type, its part, field, number, type.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use csi_proto::csi_proxy::{Group, Version, served};
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto/csi-proxy");

fn descriptor(group: Group, version: Version) -> FileDescriptorProto {
    let compiled = protox::compile([format!("{group}/{version}.proto")], [FILES]).unwrap();
    assert_eq!(compiled.file.len(), 1, "each file stands by itself");
    compiled.file.into_iter().next().unwrap()
}

fn plain_type(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::String => "string".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Uint32 => "uint32".to_owned(),
        Type::Int64 => "int64".to_owned(),
        Type::Message | Type::Enum => field.type_name().rsplit('.').next().unwrap().to_owned(),
        other => panic!("{}: no field has the type {other:?}", field.name()),
    }
}

fn type_of(field: &FieldDescriptorProto, message: &DescriptorProto) -> String {
    let plain = plain_type(field);
    let entry = message.nested_type.iter().find(|nested| nested.name() == plain && nested.options.is_some());
    match entry {
        Some(entry) => format!("map<{},{}>", plain_type(&entry.field[0]), plain_type(&entry.field[1])),
        None if field.label() == Label::Repeated => format!("repeated {plain}"),
        None => plain,
    }
}

fn fields(message: &DescriptorProto) -> Vec<String> {
    if message.field.is_empty() {
        return vec!["-\t-\t-".to_owned()];
    }
    let row =
        |field: &FieldDescriptorProto| format!("{}\t{}\t{}", field.name(), field.number(), type_of(field, message));
    message.field.iter().map(row).collect()
}

fn rows(group: Group, version: Version) -> BTreeSet<String> {
    let file = descriptor(group, version);
    let [service] = file.service.as_slice() else { panic!("{group}/{version} has no single service") };
    let mut used = BTreeSet::new();
    let mut rows = BTreeSet::new();
    for method in &service.method {
        assert!(!method.client_streaming() && !method.server_streaming(), "{} is unary", method.name());
        for (direction, name) in [("request", method.input_type()), ("response", method.output_type())] {
            let name = name.rsplit('.').next().unwrap();
            let message = file.message_type.iter().find(|message| message.name() == name).unwrap();
            assert!(used.insert(name), "{name} is used twice");
            let line = |field| format!("{group}\t{version}\t{}\t{direction}\t{field}", method.name());
            rows.extend(fields(message).into_iter().map(line));
        }
    }
    for message in file.message_type.iter().filter(|message| !used.contains(message.name())) {
        let line = |field| format!("{group}\t{version}\t{}\tmessage\t{field}", message.name());
        rows.extend(fields(message).into_iter().map(line));
    }
    for set in &file.enum_type {
        let line = |value: &prost_types::EnumValueDescriptorProto| {
            format!("{group}\t{version}\t{}\tenum\t{}\t{}\t-", set.name(), value.name(), value.number())
        };
        rows.extend(set.value.iter().map(line));
    }
    rows
}

#[test]
fn protocol_files_match_the_released_interface() {
    let expected: BTreeSet<String> = include_str!("contract.tsv").lines().map(str::to_owned).collect();
    let actual: BTreeSet<String> = served().flat_map(|(group, version)| rows(group, version)).collect();
    let missing: Vec<&String> = expected.difference(&actual).collect();
    let surplus: Vec<&String> = actual.difference(&expected).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing: {missing:#?}\nsurplus: {surplus:#?}");
    assert!(expected.len() > 400, "the table was not read");
}

#[test]
fn protobuf_package_is_named_after_its_version() {
    for (group, version) in served() {
        let file = descriptor(group, version);
        assert_eq!(file.package(), version.to_string());
        assert_eq!(file.service[0].name(), group.service());
    }
}

#[test]
fn each_served_group_version_has_one_protocol_file() {
    let mut found = BTreeSet::new();
    for group in Group::ALL {
        for entry in std::fs::read_dir(format!("{FILES}/{group}")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            found.insert(format!("{group}/{}", name.strip_suffix(".proto").unwrap()));
        }
    }
    assert_eq!(found, served().map(|(group, version)| format!("{group}/{version}")).collect());
}
