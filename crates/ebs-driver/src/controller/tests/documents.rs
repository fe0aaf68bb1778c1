//! Checks that the tables in `docs/` match the code. With `EBS_WRITE_DOCS=1` in the environment, the test below
//! rewrites the tables. Otherwise, it fails when a page differs.
//!
//! **To add a table**: put its two marker lines into the page ([`doc_table::check`]), give it a row in [`tables`], and
//! run the test once with `EBS_WRITE_DOCS=1`. The test generates the text of a table from the code.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ebs_ec2::{DriverName, Tags};
use ebs_metadata::{LimitFlags, attach_limit};
use ebs_testkit::doc_table;

use super::map;
use crate::parameters::{ClaimNames, MutableParameters, SnapshotParameters, VolumeParameters};
use crate::rpc::Rpc;
use crate::status::Meaning;
use crate::tags::{MAX_KEY, MAX_TAGS, MAX_VALUE, RESERVED_KEYS, TagPolicy, reserved_prefixes};

/// Returns each table with its page and its name, which is unique in the page.
fn tables() -> [(&'static str, &'static str, String); 6] {
    [
        ("docs/tagging.md", "tags of the driver", own_tags()),
        ("docs/tagging.md", "templates", templates()),
        ("docs/tagging.md", "reserved keys", reserved_keys()),
        ("docs/tagging.md", "limits", limits()),
        ("docs/node.md", "attachment limits", attachment_limits()),
        ("docs/dev/design.md", "bounds of EC2's operations", bounds_of_ec2()),
    ]
}

/// Returns the tags that the driver sets on a volume and a snapshot when all names and the cluster ID are known.
fn own_tags() -> String {
    let policy = TagPolicy { cluster_id: Some("prod".to_owned()), ..TagPolicy::default() };
    let class = map(&[
        ("iopsPerGB", "50"),
        ("allowAutoIOPSIncreaseOnModify", "true"),
        ("csi.storage.k8s.io/pvc/name", "data-0"),
        ("csi.storage.k8s.io/pvc/namespace", "shop"),
        ("csi.storage.k8s.io/pv/name", "pvc-1234"),
    ]);
    let class = VolumeParameters::parse(&class).expect("a class");
    let volume = policy.of_volume("pvc-1234", &class, &MutableParameters::default()).expect("tags");
    let snapshot = policy.of_snapshot("snapshot-5678", &SnapshotParameters::default()).expect("tags");
    let keys: BTreeSet<&String> = volume.keys().chain(snapshot.keys()).collect();
    let value = |tags: &Tags, key: &str| tags.get(key).map_or_else(|| "–".to_owned(), |value| format!("`{value}`"));
    let rows = keys.into_iter().map(|key| [format!("`{key}`"), value(&volume, key), value(&snapshot, key)]);
    markdown(["tag", "volume", "snapshot"], rows)
}

/// Returns examples of templates with their results, for the claim `data-0` in the namespace `shop`.
fn templates() -> String {
    let data =
        ClaimNames { pvc_name: "data-0".to_owned(), pvc_namespace: "shop".to_owned(), pv_name: "pvc-1234".to_owned() };
    let rows = [
        "{{ .PVCNamespace }}/{{ .PVCName }}",
        "{{ toUpper .PVCNamespace }}",
        "{{ .PVCName | field \"-\" 0 }}",
        "{{ .PVName | substring 4 -1 }}",
        "{{ if contains \"data\" .PVCName }}database{{ else }}other{{ end }}",
        "{{ printf \"%s-%04d\" .PVCNamespace (len .PVCName) }}",
    ];
    let render = |template: &str| crate::go_template::render(template, &data.template_data()).expect("a template");
    let rows = rows.into_iter().map(|template| [format!("`{template}`"), format!("`{}`", render(template))]);
    markdown(["template", "value"], rows)
}

fn reserved_keys() -> String {
    let exact = RESERVED_KEYS.map(|key| [format!("`{key}`"), "this key".to_owned()]);
    let prefixes = reserved_prefixes(&DriverName::default());
    let prefixes = prefixes.map(|prefix| [format!("`{prefix}`"), "all keys with this prefix".to_owned()]);
    markdown(["key", "reserved"], exact.into_iter().chain(prefixes))
}

/// Returns the limits of a few instance types, and the limit that a node of the type reports if only its root volume is
/// attached.
fn attachment_limits() -> String {
    let types = ["t3.medium", "m5.large", "c5d.12xlarge", "g5.48xlarge", "m7i.large", "m7i.48xlarge", "t2.micro"];
    let rows = types.into_iter().map(|name| {
        let of_type = ebs_ec2::attachment_limit(name);
        let shared = if of_type.kind == ebs_ec2::LimitKind::Shared { "yes" } else { "no" };
        let reported = |cards| attach_limit(name, 0, cards, &LimitFlags::default()).to_string();
        let limit = of_type.limit.to_string();
        [format!("`{name}`"), limit, shared.to_owned(), reported(1), reported(3)]
    });
    let head = ["type", "EC2's limit", "shared with interfaces", "reported with 1 interface", "with 3"];
    markdown(head, rows)
}

/// Returns the longest times that `ebs-cloud` waits for EC2. Each row has a constant's doc comment and its seconds.
fn bounds_of_ec2() -> String {
    let source = include_str!("../../../../ebs-cloud/src/timeouts.rs");
    let mut rows = Vec::new();
    let mut about = String::new();
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("/// ") {
            about.push_str(if about.is_empty() { "" } else { " " });
            about.push_str(text);
        } else if let Some((_, seconds)) = line.split_once(": Duration = Duration::from_secs(") {
            let seconds = seconds.trim_end_matches(");");
            rows.push([std::mem::take(&mut about).trim_end_matches('.').to_owned(), format!("{seconds} s")]);
        } else {
            about.clear();
        }
    }
    assert!(rows.len() >= 12, "{rows:?}");
    markdown(["what", "at most"], rows.into_iter())
}

fn limits() -> String {
    let rows = [
        ("tags of a volume or snapshot, the driver's own included", MAX_TAGS),
        ("characters of a key", MAX_KEY),
        ("characters of a value", MAX_VALUE),
    ];
    markdown(["what", "at most"], rows.into_iter().map(|(what, most)| [what.to_owned(), most.to_string()]))
}

fn markdown<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let cell = |text: String| text.replace('|', "\\|");
    let mut text = line(&head.map(str::to_owned));
    text.push_str(&format!("|{}\n", "---|".repeat(N)));
    for row in rows {
        text.push_str(&line(&row.map(cell)));
    }
    text
}

pub(super) fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `EBS_WRITE_DOCS=1` rewrites the tables.
#[test]
fn tables_of_the_documentation_match_the_code() {
    for (page, name, table) in tables() {
        doc_table::check(page, &[(name, table)]);
    }
}

/// The parser supports every documented key.
#[test]
fn every_parameter_key_is_documented_once() {
    let (class, of_tag) = (VolumeParameters::keys(), "tagSpecification*");
    for (page, table, keys) in [
        ("docs/parameters.md", "StorageClass", class.chain([of_tag]).collect::<Vec<_>>()),
        ("docs/parameters.md", "VolumeSnapshotClass", SnapshotParameters::keys().chain([of_tag]).collect()),
        (
            "docs/modify-volume.md",
            "VolumeAttributesClass",
            MutableParameters::keys().chain([of_tag, "tagDeletion*"]).collect(),
        ),
    ] {
        assert_eq!(doc_table::names(page, table), keys, "{page}");
    }
    for key in crate::context::FormatKey::ALL {
        assert!(VolumeParameters::keys().any(|known| known.eq_ignore_ascii_case(key.as_str())), "{key}");
    }
}

const UNSUPPORTED: [Rpc; 5] = [
    Rpc::ControllerListVolumeHealth,
    Rpc::ControllerGetVolumeHealth,
    Rpc::GetCapacity,
    Rpc::ControllerGetVolume,
    Rpc::NodeGetStorageHealth,
];

/// The page lists the timeout of each supported RPC. For each meaning of an error, it also lists the code, and whether
/// a sidecar forgets the object after that code.
#[test]
fn design_page_lists_the_timeout_of_each_rpc_and_each_code() {
    let page = std::fs::read_to_string(repository().join("docs/dev/design.md")).expect("docs/dev/design.md");
    let row = |begin: &str, end: &str| page.lines().any(|line| line.starts_with(begin) && line.ends_with(end));
    for rpc in Rpc::ALL {
        let timeout = rpc.timeout();
        let waits = if timeout.is_zero() { "–".to_owned() } else { humantime::format_duration(timeout).to_string() };
        let is_supported = !UNSUPPORTED.contains(rpc);
        assert_eq!(row(&format!("| `{rpc}` |"), &format!("| {waits} |")), is_supported, "{rpc} {waits}");
    }
    for meaning in Meaning::ALL.iter().copied() {
        let code = format!("{:?}", crate::status::status(meaning, "").code());
        // The provisioner does not forget a volume after Aborted or Unavailable. ResourceExhausted is final only for a
        // creation.
        let is_final = match code.as_str() {
            "Aborted" | "Unavailable" => "no",
            "ResourceExhausted" => "of a creation",
            _ => "yes",
        };
        assert!(row(&format!("| {meaning:?} | {code} | {is_final} |"), "|"), "{meaning:?}");
    }
}
