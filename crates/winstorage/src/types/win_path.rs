//! Absolute paths of Windows. `std::path` reads them only on Windows and repairs much silently; this type does neither.

use std::fmt;

/// A path with a drive letter, in its parts: no separators, no `.` or `..`, no empty component.
///
/// Whether a path is allowed is not said here: [`crate::path::PathRules`] makes them from what clients write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WinPath {
    drive: char,
    components: Vec<Component>,
}

/// A name in a directory, as it was written. Two are equal whatever the case of their ASCII letters; other letters are
/// compared as they stand, for the case table of each volume is its own and a wrong guess would let a path out.
#[derive(Debug, Clone)]
pub struct Component(String);

impl Component {
    pub(crate) fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// As it was written.
    #[must_use]
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
    /// A path from its parts, for those who have checked them.
    pub(crate) fn from_parts(drive: char, components: Vec<Component>) -> Self {
        Self { drive: drive.to_ascii_uppercase(), components }
    }

    /// Splits `X:\a\b`; repeated and trailing separators are dropped. `None` where there is no drive letter.
    pub(crate) fn split(text: &str) -> Option<Self> {
        let mut chars = text.chars();
        let drive = chars.next().filter(char::is_ascii_alphabetic)?;
        let rest = chars.as_str().strip_prefix(r":\")?;
        let components = rest.split('\\').filter(|name| !name.is_empty()).map(Component::new);
        Some(Self::from_parts(drive, components.collect()))
    }

    /// A path that the administrator or the orchestrator wrote: `/` becomes `\`, and a leading `\` stands on drive `c:`.
    /// `None` where no absolute path comes out of it.
    #[must_use]
    pub fn normalise(text: &str) -> Option<Self> {
        let text = text.replace('/', r"\");
        let is_rooted = text.starts_with('\\') && !text.starts_with(r"\\");
        let text = if is_rooted { format!("c:{text}") } else { text };
        let path = Self::split(&text)?;
        let is_plain = |name: &Component| name.0 != "." && name.0 != ".." && !name.0.contains(':');
        path.components.iter().all(is_plain).then_some(path)
    }

    /// Upper case.
    #[must_use]
    pub fn drive(&self) -> char {
        self.drive
    }

    /// From the drive down.
    #[must_use]
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// The directory that the path's last component stands in; `None` of a drive.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let (_, parents) = self.components.split_last()?;
        Some(Self { drive: self.drive, components: parents.to_vec() })
    }

    /// The path of `name` in this directory.
    #[must_use]
    pub fn join(&self, name: &Component) -> Self {
        let mut path = self.clone();
        path.components.push(name.clone());
        path
    }

    /// What stands below `directory`, component by component; `None` where the path is not `directory` or in it.
    #[must_use]
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
