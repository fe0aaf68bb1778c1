//! Absolute Windows paths. `std::path` parses them only on Windows and repairs them silently. This type parses them on
//! every system and never repairs them.

use std::fmt;

/// A path with a drive letter and components. It has no separators, no `.` or `..`, and no empty components.
///
/// This type does not check whether a path is allowed. [`crate::path::PathRules`] creates it from a client's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WinPath {
    drive: char,
    components: Vec<Component>,
}

/// A name in a directory, exactly as the client sent it. Equality ignores the case of ASCII letters only: each volume
/// has its own case table for other letters, and a wrong guess could let a path leave its directory.
#[derive(Debug, Clone)]
pub struct Component(String);

impl Component {
    pub(crate) fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Component {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Component {}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl WinPath {
    /// Creates a path from components that the caller has checked.
    pub(crate) fn from_parts(drive: char, components: Vec<Component>) -> Self {
        Self { drive: drive.to_ascii_uppercase(), components }
    }

    /// Splits `X:\a\b`, and drops repeated and trailing separators. Returns `None` if there is no drive letter.
    pub(crate) fn split(text: &str) -> Option<Self> {
        let mut chars = text.chars();
        let drive = chars.next().filter(char::is_ascii_alphabetic)?;
        let rest = chars.as_str().strip_prefix(r":\")?;
        let components = rest.split('\\').filter(|name| !name.is_empty()).map(Component::new);
        Some(Self::from_parts(drive, components.collect()))
    }

    /// Parses a path that the administrator or the orchestrator specifies. `/` becomes `\`, and a leading `\` means the
    /// drive `c:`. Returns `None` if the result is not absolute.
    pub fn normalise(text: &str) -> Option<Self> {
        let text = text.replace('/', r"\");
        let is_rooted = text.starts_with('\\') && !text.starts_with(r"\\");
        let text = if is_rooted { format!("c:{text}") } else { text };
        let path = Self::split(&text)?;
        let is_plain = |name: &Component| name.0 != "." && name.0 != ".." && !name.0.contains(':');
        path.components.iter().all(is_plain).then_some(path)
    }

    pub fn drive(&self) -> char {
        self.drive
    }

    pub fn components(&self) -> &[Component] {
        &self.components
    }

    pub fn parent(&self) -> Option<Self> {
        let (_, parents) = self.components.split_last()?;
        Some(Self { drive: self.drive, components: parents.to_vec() })
    }

    pub fn join(&self, name: &Component) -> Self {
        let mut path = self.clone();
        path.components.push(name.clone());
        path
    }

    /// Returns the components below `directory`. Returns `None` if the path is neither `directory` nor in it.
    pub fn below(&self, directory: &Self) -> Option<&[Component]> {
        let depth = directory.components.len();
        let is_in = self.drive == directory.drive && self.components.get(..depth)? == directory.components.as_slice();
        is_in.then(|| &self.components[depth..])
    }
}

impl fmt::Display for WinPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r"{}:\", self.drive)?;
        for (at, name) in self.components.iter().enumerate() {
            if at > 0 {
                f.write_str(r"\")?;
            }
            f.write_str(&name.0)?;
        }
        Ok(())
    }
}
