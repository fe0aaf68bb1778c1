//! `--vmodule`: raises the verbosity for source files whose names match a pattern, as in klog.

use std::path::Path;

/// The value `pattern=N,…` of `--vmodule`: shows lines up to verbosity N from files whose names, without directory and
/// `.rs`, match the pattern. The first matching pattern wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModuleLevels(Vec<(Vec<char>, u32)>);

/// Reports a text that does not have the form pattern=N,pattern=N.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not pattern=N with N from 0 to 2147483647")]
pub struct BadModuleLevel(String);

impl std::str::FromStr for ModuleLevels {
    type Err = BadModuleLevel;

    fn from_str(text: &str) -> Result<Self, BadModuleLevel> {
        let mut levels = Vec::new();
        for entry in text.split(',').filter(|entry| !entry.trim().is_empty()) {
            let bad = || BadModuleLevel(entry.to_owned());
            let (pattern, level) = entry.split_once('=').ok_or_else(bad)?;
            let level = level.trim().parse::<u32>().ok().filter(|level| *level <= u32::MAX / 2).ok_or_else(bad)?;
            let mut pattern: Vec<char> = pattern.trim().chars().collect();
            if pattern.is_empty() {
                return Err(bad());
            }
            // Consecutive stars match the same names as a single star, but more slowly.
            pattern.dedup_by(|next, before| *next == '*' && *before == '*');
            levels.push((pattern, level));
        }
        Ok(Self(levels))
    }
}

impl ModuleLevels {
    /// Returns the verbosity for a source file, or `None` if no pattern matches its name.
    pub(crate) fn of(&self, file: &str) -> Option<u32> {
        if self.0.is_empty() {
            return None;
        }
        let stem: Vec<char> = Path::new(file).file_stem()?.to_str()?.chars().collect();
        self.0.iter().find(|(pattern, _)| fits(pattern, &stem)).map(|(_, level)| *level)
    }

    /// Returns the highest verbosity that any pattern sets.
    pub(crate) fn most(&self) -> u32 {
        self.0.iter().map(|(_, level)| *level).max().unwrap_or(0)
    }
}

/// Returns true if the text matches a shell pattern: `*`, `?`, `[a-z]`, `[^a-z]`, `\x`. An invalid pattern matches
/// nothing.
fn fits(pattern: &[char], text: &[char]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return text.is_empty() };
    if *first == '*' {
        return (0..=text.len()).any(|taken| text.get(taken..).is_some_and(|left| fits(rest, left)));
    }
    let Some((next, left)) = text.split_first() else { return false };
    match first {
        '?' => fits(rest, left),
        '[' => class(rest, *next).is_some_and(|(is_in, rest)| is_in && fits(rest, left)),
        '\\' => rest.split_first().is_some_and(|(wanted, rest)| wanted == next && fits(rest, left)),
        wanted => wanted == next && fits(rest, left),
    }
}

/// Returns whether a character class contains the character, and the pattern after the class. `pattern` begins after
/// the opening bracket. Returns `None` if the class is not closed.
fn class(pattern: &[char], c: char) -> Option<(bool, &[char])> {
    let (negated, mut rest) = match pattern.split_first()? {
        ('^', rest) => (true, rest),
        _ => (false, pattern),
    };
    let (mut is_in, mut count) = (false, 0);
    loop {
        if let Some((']', after)) = rest.split_first().filter(|_| count > 0) {
            return Some((is_in != negated, after));
        }
        let (low, after) = one(rest)?;
        let (high, after) = match after.split_first() {
            Some(('-', after)) => one(after)?,
            _ => (low, after),
        };
        is_in |= (low..=high).contains(&c);
        (rest, count) = (after, count + 1);
    }
}

/// Parses one character of a class, which may be escaped with a backslash.
fn one(pattern: &[char]) -> Option<(char, &[char])> {
    match pattern.split_first()? {
        ('\\', rest) => rest.split_first().map(|(c, rest)| (*c, rest)),
        ('-' | ']', _) => None,
        (c, rest) => Some((*c, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(levels: &str, file: &str) -> Option<u32> {
        levels.parse::<ModuleLevels>().unwrap().of(file)
    }

    /// A pattern matches a name without its directory and extension.
    #[test]
    fn first_pattern_that_matches_file_name_wins() {
        for (levels, file, expected) in [
            ("mount=5", "crates/ebs-mounter/src/mount.rs", Some(5)),
            ("mount=5", "crates/ebs-mounter/src/mounter.rs", None),
            ("mount*=5", "crates/ebs-mounter/src/mounter.rs", Some(5)),
            ("mount*=5,mounter=9", "src/mounter.rs", Some(5)),
            ("mounter=9,mount*=5", "src/mounter.rs", Some(9)),
            ("m?unt=5", "mount.rs", Some(5)),
            ("[a-m]ount=5", "mount.rs", Some(5)),
            ("[^a-m]ount=5", "mount.rs", None),
            ("[n-z]ount=5", "mount.rs", None),
            ("*=3", "any.rs", Some(3)),
            ("\\*=3", "any.rs", None),
            ("**unt=3", "mount.rs", Some(3)),
            // An invalid pattern matches nothing, as in Go.
            ("[a=3", "a.rs", None),
            ("[]a]=3", "a.rs", None),
            ("src/mount=3", "src/mount.rs", None),
            (" mount = 4 ,", "mount.rs", Some(4)),
            ("", "mount.rs", None),
        ] {
            assert_eq!(level(levels, file), expected, "{levels} {file}");
        }
    }

    #[test]
    fn invalid_list_of_patterns_is_rejected_and_named() {
        for bad in ["a", "=1", "a=", "a=x", "a=-1", "a=1.5", "a=2147483648", "a=1,b"] {
            let error = bad.parse::<ModuleLevels>().unwrap_err().to_string();
            assert!(error.contains(bad.rsplit(',').next().unwrap()), "{bad}: {error}");
        }
    }
}
