//! Who may depend on whom, and what nobody may depend on.

use std::collections::BTreeSet;
use std::path::Path;

use super::Finding;
use super::workspace::{Edge, Kind, Member, Workspace};

/// What a crate may use.
struct Rule {
    name: &'static str,
    /// Crates of ours in the product.
    ours: &'static [&'static str],
    /// Crates of ours that only its tests may use besides.
    tests: &'static [&'static str],
    /// Crates of others, by name or by prefix ending in `*`; tests included.
    never: &'static [&'static str],
}

const RULES: [Rule; 29] = [
    Rule { name: "ebs-types", ours: &[], tests: &[], never: &["tokio", "aws-*", "tonic"] },
    Rule { name: "go-template", ours: &[], tests: &[], never: &["tokio", "aws-*", "tonic"] },
    Rule { name: "go-flags", ours: &[], tests: &[], never: &["tokio", "aws-*", "tonic"] },
    Rule { name: "klog", ours: &["go-flags"], tests: &[], never: &["tokio", "aws-*", "tonic"] },
    Rule { name: "process-signals", ours: &[], tests: &[], never: &["aws-*", "tonic"] },
    Rule {
        name: "csi-node-driver-registrar",
        ours: &["csi-proto", "go-flags", "grpc-authority", "klog", "process-signals"],
        tests: &["ebs-testkit"],
        // Small, and for Windows without a C compiler.
        never: &["aws-*", "kube", "clap", "rustls"],
    },
    Rule { name: "grpc-authority", ours: &[], tests: &[], never: &["aws-*", "tonic"] },
    Rule { name: "csi-proto", ours: &[], tests: &[], never: &["tokio", "aws-*"] },
    Rule { name: "ebs-ec2", ours: &["ebs-types"], tests: &[], never: &["aws-*", "tonic"] },
    Rule { name: "ebs-aws", ours: &["ebs-ec2", "ebs-types"], tests: &["ebs-sim"], never: &["tonic", "kube"] },
    Rule {
        name: "ebs-sim",
        ours: &["ebs-ec2", "ebs-types", "process-signals"],
        tests: &[],
        // Signatures are checked with AWS's own code; nothing of it can call anybody.
        never: &["aws-config", "aws-runtime", "aws-sdk-*", "aws-smithy-*", "tonic", "kube"],
    },
    Rule { name: "winstorage", ours: &[], tests: &[], never: &["tokio", "aws-*", "tonic", "kube"] },
    Rule { name: "csi-proxy-proto", ours: &[], tests: &[], never: &["aws-*", "kube"] },
    Rule {
        name: "csi-proxy",
        ours: &["csi-proxy-proto", "go-flags", "grpc-authority", "klog", "process-signals", "winstorage"],
        tests: &["ebs-testkit"],
        never: &["aws-*", "kube", "axum"],
    },
    Rule { name: "ebs-image", ours: &[], tests: &[], never: &["aws-*", "tonic", "kube"] },
    Rule { name: "ebs-calls", ours: &["ebs-ec2", "ebs-types"], tests: &[], never: &["aws-*", "tonic", "kube"] },
    Rule {
        name: "ebs-cloud",
        ours: &["ebs-calls", "ebs-ec2", "ebs-types"],
        tests: &["ebs-sim"],
        never: &["aws-*", "tonic", "kube"],
    },
    Rule {
        name: "ebs-kubernetes",
        ours: &["ebs-calls", "ebs-ec2", "ebs-metadata", "ebs-types"],
        tests: &["ebs-sim", "ebs-testkit"],
        never: &["aws-*", "tonic"],
    },
    Rule { name: "ebs-metadata", ours: &["ebs-types"], tests: &["ebs-sim"], never: &["aws-sdk-*", "tonic"] },
    Rule { name: "ebs-mounter", ours: &["ebs-types"], tests: &["ebs-testkit"], never: &["aws-*", "tonic", "kube"] },
    Rule {
        name: "ebs-driver",
        ours: &["csi-proto", "ebs-cloud", "ebs-metadata", "ebs-mounter", "ebs-types", "go-template", "grpc-authority"],
        tests: &["ebs-ec2", "ebs-sim", "ebs-testkit"],
        never: &["aws-*", "kube", "axum"],
    },
    Rule {
        name: "ebs-windows-node",
        ours: &["csi-proto", "csi-proxy-proto", "ebs-driver", "ebs-metadata", "ebs-types", "winstorage"],
        tests: &["csi-proxy", "ebs-cloud", "ebs-sim", "ebs-testkit"],
        never: &["aws-*", "kube", "axum"],
    },
    Rule { name: "ebs-telemetry", ours: &["ebs-types", "klog"], tests: &[], never: &["aws-*", "tonic", "kube"] },
    Rule {
        name: "ebs-testkit",
        ours: &["csi-proto", "ebs-ec2", "ebs-sim", "ebs-types"],
        tests: &[],
        never: &["aws-*", "kube"],
    },
    Rule {
        name: "ebs-model",
        ours: &["csi-proto", "ebs-cloud", "ebs-driver", "ebs-ec2", "ebs-sim", "ebs-testkit", "ebs-types"],
        tests: &[],
        never: &["aws-*", "kube", "axum"],
    },
    Rule {
        name: "ebs-torture",
        ours: &["csi-proto", "ebs-driver", "ebs-metadata", "ebs-mounter", "ebs-testkit", "ebs-types"],
        tests: &[],
        never: &["aws-*", "kube", "axum"],
    },
    Rule {
        name: "ebs-vm",
        ours: &["csi-proto", "ebs-mounter", "ebs-sim", "ebs-testkit", "ebs-types"],
        tests: &[],
        never: &["aws-*", "kube", "axum"],
    },
    Rule {
        name: "ebs-csi-driver",
        ours: &[
            "csi-proto",
            "csi-proxy-proto",
            "ebs-aws",
            "ebs-cloud",
            "ebs-driver",
            "ebs-ec2",
            "ebs-kubernetes",
            "ebs-metadata",
            "ebs-mounter",
            "ebs-telemetry",
            "ebs-types",
            "ebs-windows-node",
            "go-flags",
            "process-signals",
            "winstorage",
        ],
        tests: &["ebs-image", "ebs-model", "ebs-sim", "ebs-testkit"],
        never: &["aws-*"],
    },
    Rule {
        name: "xtask",
        ours: &["csi-proto", "ebs-testkit", "ebs-types", "process-signals"],
        tests: &[],
        never: &["aws-*", "kube"],
    },
];

/// Crates that nothing may pull in, with the reason.
const BANNED: [(&str, &str); 5] = [
    (
        "aws-sdk-ec2",
        "ebs-aws speaks to EC2 itself: that client is most of a program, and takes half of a reply for the whole",
    ),
    ("ring", "the SDK brings aws-lc-rs: one cryptographic library"),
    ("openssl", "rustls is the TLS of this program"),
    ("openssl-sys", "rustls is the TLS of this program"),
    ("native-tls", "rustls is the TLS of this program"),
];

/// Crates of which two versions would mean two network stacks in one program.
const SINGLE: [&str; 2] = ["hyper", "rustls"];

/// What clients of AWS's services are called, and the only crate that may name one.
const SDK: (&str, &str) = ("aws-sdk-", "ebs-aws");

/// Crates with lints of their own: where Linux or Windows has calls without a safe form.
const UNSAFE: [&str; 3] = ["csi-proxy", "ebs-mounter", "winstorage"];

/// The driver binary, and what must not be linked into it.
const DRIVER: (&str, [&str; 6]) =
    ("ebs-csi-driver", ["ebs-image", "ebs-model", "ebs-sim", "ebs-testkit", "ebs-torture", "loopdev-3"]);

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let ours: BTreeSet<&str> = workspace.crates.iter().map(|member| member.name.as_str()).collect();
    let mut findings: Vec<Finding> = workspace.crates.iter().flat_map(|member| against_table(member, &ours)).collect();
    findings.extend(workspace.crates.iter().flat_map(names_the_sdk));
    findings.extend(workspace.crates.iter().filter_map(keeps_own_lints));
    findings.extend(linked_into_the_driver(workspace));
    findings.extend(banned(&workspace.packages));
    findings
}

fn against_table(member: &Member, ours: &BTreeSet<&str>) -> Vec<Finding> {
    let Some(rule) = RULES.iter().find(|rule| rule.name == member.name) else {
        let problem = format!("{} has no row in the table of dependencies", member.name);
        let mend = "add it to RULES in xtask/src/tidy/dependencies.rs and to the map in ARCHITECTURE.md";
        return vec![Finding::new(&member.manifest, 1, problem, mend)];
    };
    let mut findings = Vec::new();
    for edge in &member.edges {
        let to = edge.to.as_str();
        let is_ours_forbidden = ours.contains(to)
            && to != member.name
            && !rule.ours.contains(&to)
            && !(edge.kind == Kind::Dev && rule.tests.contains(&to));
        if is_ours_forbidden || rule.never.iter().any(|pattern| matches(pattern, to)) {
            findings.push(edge_finding(member, edge));
        }
    }
    findings
}

fn edge_finding(member: &Member, edge: &Edge) -> Finding {
    let how = if edge.kind == Kind::Dev { "its tests use" } else { "uses" };
    let problem = format!("{} must not know {}, but {how} it", member.name, edge.to);
    let mend = "turn the dependency round: a trait or type in the lower crate, put together in ebs-csi-driver";
    Finding::new(&member.manifest, edge.line, problem, mend)
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
}

fn names_the_sdk(member: &Member) -> Vec<Finding> {
    let edges = member.edges.iter().filter(|edge| edge.to.starts_with(SDK.0) && member.name != SDK.1);
    let mend = format!("only {} may: go through the port in ebs-ec2", SDK.1);
    let problem = |edge: &Edge| format!("{} names {}", member.name, edge.to);
    edges.map(|edge| Finding::new(&member.manifest, edge.line, problem(edge), mend.clone())).collect()
}

fn keeps_own_lints(member: &Member) -> Option<Finding> {
    (!member.shares_lints && !UNSAFE.contains(&member.name.as_str())).then(|| {
        let problem = format!("{} does not take the workspace's lints", member.name);
        Finding::new(&member.manifest, 1, problem, "add [lints] with workspace = true")
    })
}

fn linked_into_the_driver(workspace: &Workspace) -> Vec<Finding> {
    let ways = workspace.reachable(DRIVER.0);
    let manifest = workspace.crates.iter().find(|member| member.name == DRIVER.0).map(|member| member.manifest.clone());
    let found = DRIVER.1.iter().filter_map(|name| ways.get(*name));
    found
        .map(|way| {
            Finding::new(
                manifest.as_deref().unwrap_or(Path::new("Cargo.toml")),
                1,
                format!("{} is linked into the driver: {}", way.last().map_or("?", String::as_str), way.join(" → ")),
                "the simulator is reached over HTTP and only tests link it: make it a dev-dependency",
            )
        })
        .collect()
}

fn banned(packages: &[(String, String)]) -> Vec<Finding> {
    let lock = Path::new("Cargo.lock");
    let mut findings = Vec::new();
    for (name, reason) in BANNED {
        if packages.iter().any(|(package, _)| package == name) {
            let mend = format!("{reason}; find who brings it with: cargo tree -i {name} --target all");
            findings.push(Finding::new(lock, 1, format!("{name} is among the dependencies"), mend));
        }
    }
    for name in SINGLE {
        let versions: BTreeSet<&str> =
            packages.iter().filter(|(package, _)| package == name).map(|(_, version)| version.as_str()).collect();
        if versions.len() > 1 {
            let all: Vec<&str> = versions.into_iter().collect();
            let mend = format!("trim the features that bring the older one; see: cargo tree -i {name}@{}", all[0]);
            findings.push(Finding::new(lock, 1, format!("{name} comes in versions {}", all.join(", ")), mend));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn member(name: &str, edges: &[(&str, Kind)]) -> Member {
        let edges = edges.iter().map(|(to, kind)| Edge { to: (*to).to_owned(), kind: *kind, line: 7 });
        Member { name: name.to_owned(), edges: edges.collect(), shares_lints: true, ..Member::default() }
    }

    fn problems(member: &Member) -> usize {
        let ours = RULES.iter().map(|rule| rule.name).collect();
        against_table(member, &ours).len()
    }

    /// A forbidden dependency or an overlong file fails tidy.
    #[test]
    fn a_forbidden_crate_of_ours_is_found_on_its_line() {
        let ours = RULES.iter().map(|rule| rule.name).collect();
        let findings = against_table(&member("ebs-cloud", &[("ebs-aws", Kind::Normal)]), &ours);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 7);
    }

    #[test]
    fn tests_may_use_the_simulator_where_the_product_may_not() {
        assert_eq!(problems(&member("ebs-driver", &[("ebs-sim", Kind::Dev)])), 0);
        assert_eq!(problems(&member("ebs-driver", &[("ebs-sim", Kind::Normal)])), 1);
        assert_eq!(problems(&member("ebs-ec2", &[("ebs-sim", Kind::Dev)])), 1);
    }

    #[test]
    fn forbidden_crates_of_others_are_found_by_prefix() {
        assert_eq!(problems(&member("ebs-driver", &[("aws-config", Kind::Normal)])), 1);
        assert_eq!(problems(&member("ebs-metadata", &[("aws-config", Kind::Normal)])), 0);
        assert_eq!(problems(&member("ebs-metadata", &[("aws-sdk-ec2", Kind::Dev)])), 1);
        assert_eq!(problems(&member("ebs-types", &[("tokio", Kind::Dev)])), 1);
    }

    #[test]
    fn a_crate_that_nobody_has_placed_is_found() {
        assert_eq!(problems(&member("ebs-new", &[])), 1);
    }

    #[test]
    fn only_one_crate_names_clients_of_aws() {
        assert_eq!(names_the_sdk(&member("ebs-aws", &[("aws-sdk-sts", Kind::Normal)])).len(), 0);
        assert_eq!(names_the_sdk(&member("ebs-testkit", &[("aws-sdk-sts", Kind::Dev)])).len(), 1);
    }

    /// The simulator is not linked into the driver.
    #[test]
    fn the_simulator_linked_into_the_driver_is_found_with_the_way_to_it() {
        let link = |from: &str, to: &str| (from.to_owned(), BTreeSet::from([to.to_owned()]));
        let linked = BTreeMap::from([link("ebs-csi-driver", "ebs-driver"), link("ebs-driver", "ebs-sim")]);
        let workspace = Workspace { linked, ..Workspace::default() };
        let findings = linked_into_the_driver(&workspace);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].problem.contains("ebs-csi-driver → ebs-driver → ebs-sim"), "{}", findings[0].problem);
    }

    #[test]
    fn a_second_hyper_and_ring_are_found() {
        let package = |name: &str, version: &str| (name.to_owned(), version.to_owned());
        assert!(banned(&[package("hyper", "1.6.0"), package("rustls", "0.23.1")]).is_empty());
        assert_eq!(banned(&[package("hyper", "1.6.0"), package("hyper", "0.14.9")]).len(), 1);
        assert_eq!(banned(&[package("ring", "0.17.0")]).len(), 1);
    }

    #[test]
    fn own_lints_are_for_the_crates_next_to_the_system_alone() {
        let without = |name: &str| Member { shares_lints: false, ..member(name, &[]) };
        assert!(keeps_own_lints(&without("ebs-cloud")).is_some());
        assert!(keeps_own_lints(&without("ebs-mounter")).is_none());
        assert!(keeps_own_lints(&without("winstorage")).is_none());
        assert!(keeps_own_lints(&without("csi-proxy")).is_none());
    }
}
