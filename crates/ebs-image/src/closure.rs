//! Selects files of packages with all of their dependencies: the libraries that they name, and theirs.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use crate::elf;
use crate::package::{Entry, Package, merged};
use crate::platform::Platform;
use crate::tree::{Node, Tree};

/// Maximum number of links from one path.
const MOST_LINKS: usize = 8;

/// The files of all packages, and the selected ones.
pub(crate) struct Pick<'a> {
    platform: Platform,
    files: BTreeMap<&'a str, (&'a Package, &'a Entry)>,
    taken: Tree,
    /// The packages with selected files, by name.
    used: BTreeMap<&'a str, &'a Package>,
}

impl<'a> Pick<'a> {
    pub(crate) fn new(packages: &'a [Package], platform: Platform) -> Self {
        let entries = packages
            .iter()
            .flat_map(|package| package.entries.iter().map(move |(path, entry)| (path.as_str(), (package, entry))));
        Self { platform, files: entries.collect(), taken: Tree::default(), used: BTreeMap::new() }
    }

    /// Selects a file, the links to it, and its dependencies.
    ///
    /// # Errors
    /// No package has the file or a dependency.
    pub(crate) fn take(&mut self, path: &str) -> anyhow::Result<()> {
        let mut ahead = vec![path.to_owned()];
        while let Some(path) = ahead.pop() {
            if let Some(contents) = self.follow(&path)? {
                ahead.extend(self.needed_by(contents).with_context(|| format!("libraries of {path}"))?);
            }
        }
        Ok(())
    }

    /// Selects the dependencies of a program that is not in a package.
    ///
    /// # Errors
    /// As [`Pick::take`].
    pub(crate) fn take_needs_of(&mut self, program: &[u8]) -> anyhow::Result<()> {
        self.needed_by(program)?.iter().try_for_each(|path| self.take(path))
    }

    /// Selects a library by name.
    ///
    /// # Errors
    /// As [`Pick::take`].
    pub(crate) fn take_library(&mut self, name: &str) -> anyhow::Result<()> {
        self.take(&self.library(name)?)
    }

    /// Returns the selected files, and their packages by name.
    pub(crate) fn end(self) -> (Tree, Vec<&'a Package>) {
        (self.taken, self.used.into_values().collect())
    }

    /// Selects the entry at the path. Returns the file's contents if it was not selected before.
    fn follow(&mut self, path: &str) -> anyhow::Result<Option<&'a [u8]>> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            let found = self.files.get(path.as_str());
            let (package, entry) =
                *found.with_context(|| format!("{path} not found in the packages of packages.lock"))?;
            self.used.insert(&package.name, package);
            match entry {
                Entry::Link(to) => {
                    self.taken.add(&path, Node::Link(to.clone()))?;
                    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                    path = if to.starts_with('/') { merged(to) } else { merged(&format!("{parent}/{to}")) };
                }
                Entry::File { contents, executable } => {
                    let is_new = self.taken.nodes().all(|(there, _)| there != path);
                    self.taken.add(&path, Node::File { contents: contents.clone(), executable: *executable })?;
                    return Ok(is_new.then_some(contents.as_slice()));
                }
            }
        }
        bail!("{path} is behind more than {MOST_LINKS} links")
    }

    fn needed_by(&self, contents: &[u8]) -> anyhow::Result<Vec<String>> {
        let Some(needs) = elf::needs(contents, self.platform)? else { return Ok(Vec::new()) };
        let libraries = needs.libraries.iter().map(|name| self.library(name));
        libraries.chain(needs.loader.map(|path| Ok(merged(&path)))).collect()
    }

    fn library(&self, name: &str) -> anyhow::Result<String> {
        // The loader is also a library, and Debian has it in a separate directory.
        let places = [format!("usr/lib/{}", self.platform.triplet()), "usr/lib".to_owned(), "usr/lib64".to_owned()];
        let paths = places.iter().map(|place| format!("{place}/{name}"));
        let mut there = paths.filter(|path| self.files.contains_key(path.as_str()));
        there.next().with_context(|| format!("library {name} not found in the packages of packages.lock"))
    }
}
