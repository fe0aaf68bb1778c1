//! Crates and what they depend on, as `cargo metadata` tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context;
use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand, Node, NodeDep, Package, PackageId};

/// How a crate is depended upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Build,
    Dev,
}

/// One line of a manifest.
#[derive(Debug, Clone)]
pub(super) struct Edge {
    pub(super) to: String,
    pub(super) kind: Kind,
    /// In the manifest, from 1.
    pub(super) line: usize,
}

/// A crate of ours.
#[derive(Debug, Default)]
pub(super) struct Member {
    pub(super) name: String,
    /// Relative to the workspace.
    pub(super) manifest: PathBuf,
    pub(super) edges: Vec<Edge>,
    /// Root files of its library and binaries, relative to the workspace.
    pub(super) roots: Vec<PathBuf>,
    /// The manifest takes the workspace's lints.
    pub(super) shares_lints: bool,
}

/// The workspace and everything it is built from.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    pub(super) root: PathBuf,
    pub(super) crates: Vec<Member>,
    /// Name and version of every package that is built, ours and others'.
    pub(super) packages: Vec<(String, String)>,
    /// By name: what each package is linked with (normal dependencies, resolved).
    pub(super) linked: BTreeMap<String, BTreeSet<String>>,
}

impl Workspace {
    pub(super) fn read() -> anyhow::Result<Self> {
        let metadata = MetadataCommand::new()
            .features(CargoOpt::AllFeatures)
            .exec()
            .context("cannot read what cargo knows of the workspace")?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        let crates = metadata
            .workspace_packages()
            .into_iter()
            .map(|package| member(package, &root))
            .collect::<Result<_, _>>()?;
        Ok(Self { linked: linked(&metadata), packages: built(&metadata), root, crates })
    }

    /// Everything that ends up in a program built from `from`, with the way to it.
    pub(super) fn reachable(&self, from: &str) -> BTreeMap<String, Vec<String>> {
        let mut ways = BTreeMap::from([(from.to_owned(), vec![from.to_owned()])]);
        let mut ahead = vec![from.to_owned()];
        while let Some(at) = ahead.pop() {
            let way = ways[&at].clone();
            for next in self.linked.get(&at).into_iter().flatten() {
                if !ways.contains_key(next) {
                    ways.insert(next.clone(), [way.clone(), vec![next.clone()]].concat());
                    ahead.push(next.clone());
                }
            }
        }
        ways
    }
}

fn member(package: &Package, root: &Path) -> anyhow::Result<Member> {
    let path = package.manifest_path.as_std_path();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let edges = package.dependencies.iter().map(|dependency| Edge {
        to: dependency.name.clone(),
        kind: match dependency.kind {
            DependencyKind::Development => Kind::Dev,
            DependencyKind::Build => Kind::Build,
            _ => Kind::Normal,
        },
        line: manifest_line(&text, &dependency.name),
    });
    let relative = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_owned();
    let roots = package.targets.iter().filter(|target| target.is_lib() || target.is_bin());
    Ok(Member {
        name: package.name.to_string(),
        manifest: relative(path),
        edges: edges.collect(),
        roots: roots.map(|target| relative(target.src_path.as_std_path())).collect(),
        shares_lints: text.contains("[lints]\nworkspace = true"),
    })
}

fn manifest_line(manifest: &str, dependency: &str) -> usize {
    let is_it = |line: &str| {
        line.strip_prefix(dependency).is_some_and(|rest| rest.starts_with([' ', '.', '=']))
            || line.contains(&format!("\"{dependency}\""))
    };
    manifest.lines().position(is_it).map_or(1, |at| at + 1)
}

/// The resolved dependencies of a package that its active features really switch on. `cargo metadata` also lists
/// optional ones that only a weak feature (`ring?/alloc`) mentions; they are never built.
fn active<'a>(node: &'a Node, packages: &BTreeMap<&PackageId, &Package>) -> Vec<&'a NodeDep> {
    let package = packages[&node.id];
    let switched_on = |dep: &&NodeDep| {
        let name = packages[&dep.pkg].name.as_str();
        let mut declared = package.dependencies.iter().filter(|dependency| dependency.name == name).peekable();
        declared.peek().is_none()
            || declared.any(|dependency| {
                !dependency.optional || enables(node, package, dependency.rename.as_deref().unwrap_or(name))
            })
    };
    node.deps.iter().filter(switched_on).collect()
}

fn enables(node: &Node, package: &Package, dependency: &str) -> bool {
    node.features.iter().any(|feature| {
        let means = package.features.get(feature.as_str()).into_iter().flatten();
        feature.as_str() == dependency
            || means
                .into_iter()
                .any(|what| what.strip_prefix("dep:") == Some(dependency) || what.split('/').next() == Some(dependency))
    })
}

fn linked(metadata: &Metadata) -> BTreeMap<String, BTreeSet<String>> {
    let packages = by_id(metadata);
    let mut linked: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in metadata.resolve.iter().flat_map(|resolve| &resolve.nodes) {
        let to = active(node, &packages).into_iter();
        let to = to.filter(|dep| dep.dep_kinds.iter().any(|info| info.kind == DependencyKind::Normal));
        let names = to.map(|dep| packages[&dep.pkg].name.to_string());
        linked.entry(packages[&node.id].name.to_string()).or_default().extend(names);
    }
    linked
}

/// Name and version of everything that is built for the workspace, its tests and build scripts included.
fn built(metadata: &Metadata) -> Vec<(String, String)> {
    let packages = by_id(metadata);
    let nodes: BTreeMap<_, _> =
        metadata.resolve.iter().flat_map(|resolve| &resolve.nodes).map(|node| (&node.id, node)).collect();
    let mut ahead: Vec<&PackageId> = metadata.workspace_members.iter().collect();
    let mut seen: BTreeSet<&PackageId> = ahead.iter().copied().collect();
    while let Some(node) = ahead.pop().and_then(|id| nodes.get(id)) {
        for dep in active(node, &packages) {
            if seen.insert(&dep.pkg) {
                ahead.push(&dep.pkg);
            }
        }
    }
    seen.iter().map(|id| (packages[*id].name.to_string(), packages[*id].version.to_string())).collect()
}

fn by_id(metadata: &Metadata) -> BTreeMap<&PackageId, &Package> {
    metadata.packages.iter().map(|package| (&package.id, package)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_is_found_on_its_line() {
        let manifest =
            "[dependencies]\nebs-ec2-more.workspace = true\nebs-ec2.workspace = true\nx = { package = \"y\" }\n";
        assert_eq!(manifest_line(manifest, "ebs-ec2"), 3);
        assert_eq!(manifest_line(manifest, "y"), 4);
    }

    #[test]
    fn reachable_follows_every_link_and_tells_the_way() {
        let link = |from: &str, to: &str| (from.to_owned(), BTreeSet::from([to.to_owned()]));
        let workspace = Workspace {
            linked: BTreeMap::from([link("a", "b"), link("b", "c"), link("x", "y")]),
            ..Workspace::default()
        };
        let ways = workspace.reachable("a");
        assert_eq!(ways["c"], ["a", "b", "c"]);
        assert!(!ways.contains_key("y"));
    }
}
