//! Checks the paths that clients send. Makes the checks of the reference csi-proxy, in the same order and with the same
//! error texts, and additional checks.

use std::fmt;

use crate::types::{Component, WinPath};

/// Why a path is rejected. The first five texts are identical to those of the Go proxy, because clients may compare
/// them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("path length {0} exceeds maximum characters: {LONGEST}")]
    Length(usize),
    #[error("invalid character \\ at beginning of path: {0}")]
    Beginning(String),
    #[error("path contains invalid characters: {0}")]
    Characters(String),
    #[error("not an absolute Windows path: {0}")]
    NotAbsolute(String),
    #[error("path: {path} is not within the working directories: {directories}")]
    Outside { path: String, directories: Directories },
    #[error("path contains the component {component:?}, which {reason}: {path}")]
    Component { path: String, component: String, reason: &'static str },
}

/// The working directories. They are printed as the Go proxy prints them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directories(Vec<WinPath>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Validation {
    /// Checks every path of every operation by component, without following links.
    #[default]
    Strict,
    /// Makes only the five checks of the Go csi-proxy, in the same operations. Insecure: a client can use paths outside
    /// the working directories.
    Legacy,
}

#[derive(Debug, Clone)]
pub struct PathRules {
    directories: Vec<WinPath>,
    validation: Validation,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    pub path: WinPath,
    /// The working directory that contains the path. If several contain it, this is the outermost one, so that as many
    /// components as possible are checked. With [`Validation::Legacy`], which follows every link, it is the parent of
    /// the path.
    pub root: WinPath,
    /// The components of the path below `root`. Empty if the path is the working directory itself.
    pub below: Vec<Component>,
}

const LONGEST: usize = 260;
const FORBIDDEN: [char; 6] = ['"', '/', ':', '?', '*', '|'];
const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];

impl PathRules {
    /// Creates rules for `directories`, which are every `--working-dir` and the kubelet's directory.
    pub fn new(directories: Vec<WinPath>, validation: Validation) -> Self {
        Self { directories, validation }
    }

    pub fn validation(&self) -> Validation {
        self.validation
    }

    pub fn directories(&self) -> &[WinPath] {
        &self.directories
    }

    /// Checks whether a client may use the path `text`. Callers use it for paths that the Go proxy checks too. Errors:
    /// the first failed check, in the order of the first five variants of [`PathError`].
    pub fn check(&self, text: &str) -> Result<Allowed, PathError> {
        let path = absolute(text)?;
        match self.validation {
            Validation::Strict => {
                path.components().iter().try_for_each(|component| plain(text, component))?;
                self.contained(text, path)
            }
            Validation::Legacy => self.prefixed(text, path),
        }
    }

    /// Checks a path that the reference csi-proxy does not check (mounts, volumes of paths, `IsSymlink`). Errors: as
    /// for [`Self::check`]. With [`Validation::Legacy`], rejects only a path that is not absolute.
    pub fn check_unlike_reference(&self, text: &str) -> Result<Allowed, PathError> {
        match self.validation {
            Validation::Strict => self.check(text),
            Validation::Legacy => {
                let path = WinPath::normalise(text).ok_or_else(|| PathError::NotAbsolute(text.to_owned()))?;
                Ok(unrooted(path))
            }
        }
    }

    fn contained(&self, text: &str, path: WinPath) -> Result<Allowed, PathError> {
        let around = self.directories.iter().filter(|directory| path.below(directory).is_some());
        let root = around.min_by_key(|directory| directory.components().len()).ok_or_else(|| self.outside(text))?;
        let below = path.below(root).unwrap_or_default().to_vec();
        Ok(Allowed { root: root.clone(), below, path })
    }

    fn prefixed(&self, text: &str, path: WinPath) -> Result<Allowed, PathError> {
        let lower = text.to_lowercase();
        let is_in = self.directories.iter().any(|directory| lower.starts_with(&directory.to_string().to_lowercase()));
        if is_in { Ok(unrooted(path)) } else { Err(self.outside(text)) }
    }

    fn outside(&self, text: &str) -> PathError {
        PathError::Outside { path: text.to_owned(), directories: Directories(self.directories.clone()) }
    }
}

fn unrooted(path: WinPath) -> Allowed {
    match (path.parent(), path.components().last()) {
        (Some(root), Some(last)) => Allowed { root, below: vec![last.clone()], path },
        _ => Allowed { root: path.clone(), below: Vec::new(), path },
    }
}

fn absolute(text: &str) -> Result<WinPath, PathError> {
    let length = text.encode_utf16().count();
    if length > LONGEST {
        return Err(PathError::Length(length));
    }
    if text.starts_with('\\') {
        return Err(PathError::Beginning(text.to_owned()));
    }
    let path = WinPath::split(text);
    // The drive letter, colon and backslash have one byte each.
    let rest = if path.is_some() { &text[3..] } else { text };
    if rest.contains(FORBIDDEN) || rest.contains("..") {
        return Err(PathError::Characters(text.to_owned()));
    }
    path.ok_or_else(|| PathError::NotAbsolute(text.to_owned()))
}

/// Rejects names that the reference csi-proxy accepts although Windows changes them or uses them for a device.
fn plain(path: &str, component: &Component) -> Result<(), PathError> {
    let name = component.as_str();
    let refuse = |reason| Err(PathError::Component { path: path.to_owned(), component: name.to_owned(), reason });
    if name.contains(|char| char < ' ' || char == '<' || char == '>') {
        refuse("contains a character that is invalid in file names")
    } else if name.ends_with(['.', ' ']) {
        refuse("ends with a dot or space, which Windows drops")
    } else if is_device(name) {
        refuse("is a device name")
    } else {
        Ok(())
    }
}

/// Returns whether Windows treats the name as a device: `NUL`, `nul.txt`, `NUL .x`, `COM1`, `LPT²`, …
fn is_device(name: &str) -> bool {
    let base = name.split('.').next().unwrap_or(name).trim_end_matches(' ').to_ascii_uppercase();
    let numbered = ["COM", "LPT"].iter().find_map(|port| base.strip_prefix(port));
    let is_digit = |rest: &str| {
        let mut chars = rest.chars();
        let first = chars.next().is_some_and(|char| char.is_ascii_digit() || matches!(char, '¹' | '²' | '³'));
        first && chars.next().is_none()
    };
    DEVICES.contains(&base.as_str()) || numbered.is_some_and(is_digit)
}

impl fmt::Display for Directories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "[{}]", all.join(" "))
    }
}

#[cfg(test)]
mod tests;
