//! Parses mount flags in the syntax of mount(8) into the arguments of mount(2).

use std::collections::BTreeSet;
use std::fmt;

/// An option that mount(2) takes as a flag bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attribute {
    ReadOnly,
    NoSuid,
    NoDev,
    NoExec,
    NoAtime,
    NoDirAtime,
    RelAtime,
    StrictAtime,
    NoSymFollow,
    Synchronous,
    DirSync,
    LazyTime,
    MandatoryLocks,
    InodeVersion,
    Silent,
}

impl Attribute {
    /// Returns the attribute for a word of the mount table, if mounts of one file system can differ in it.
    fn of_one_mount(word: &str) -> Option<Self> {
        Some(match word {
            "ro" => Self::ReadOnly,
            "nosuid" => Self::NoSuid,
            "nodev" => Self::NoDev,
            "noexec" => Self::NoExec,
            "noatime" => Self::NoAtime,
            "nodiratime" => Self::NoDirAtime,
            "nosymfollow" => Self::NoSymFollow,
            _ => return None,
        })
    }

    /// Returns the attribute as a mount flag.
    pub fn word(self) -> &'static str {
        match self {
            Self::ReadOnly => "ro",
            Self::NoSuid => "nosuid",
            Self::NoDev => "nodev",
            Self::NoExec => "noexec",
            Self::NoAtime => "noatime",
            Self::NoDirAtime => "nodiratime",
            Self::RelAtime => "relatime",
            Self::StrictAtime => "strictatime",
            Self::NoSymFollow => "nosymfollow",
            Self::Synchronous => "sync",
            Self::DirSync => "dirsync",
            Self::LazyTime => "lazytime",
            Self::MandatoryLocks => "mand",
            Self::InodeVersion => "iversion",
            Self::Silent => "silent",
        }
    }

    /// Formats attributes as mount flags, with `ro` or `rw` first.
    pub fn words(attributes: &BTreeSet<Self>) -> String {
        let access = if attributes.contains(&Self::ReadOnly) { "ro" } else { "rw" };
        let others = attributes.iter().filter(|attribute| **attribute != Self::ReadOnly).map(|other| other.word());
        std::iter::once(access).chain(others).collect::<Vec<_>>().join(",")
    }

    /// Returns the attributes of a mount table entry that can differ between mounts of one file system.
    pub fn distinguishing<'a>(words: impl IntoIterator<Item = &'a str>) -> BTreeSet<Self> {
        words.into_iter().filter_map(Self::of_one_mount).collect()
    }
}

/// Invalid mount flags.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    #[error("mount flag {0:?} has an unclosed quote")]
    OpenQuote(String),
    /// The flag would make mount(8) do something other than mount this volume.
    #[error("mount flag {0:?} is not a file system option; remove it")]
    NotAMount(String),
    /// The flag contains a character that mount(2) does not accept.
    #[error("mount flag {0:?} contains a character that cannot be passed to the kernel")]
    Character(String),
}

/// Parsed mount flags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MountOptions {
    attributes: BTreeSet<Attribute>,
    data: Vec<String>,
}

impl MountOptions {
    /// Parses flags. Each may contain several words, separated by commas. Later words override earlier ones. Words for
    /// mount(8) itself (`defaults`, `_netdev`, `nofail`, `x-…`) are dropped, unknown words passed to the file system.
    pub fn parse<'a>(flags: impl IntoIterator<Item = &'a str>) -> Result<Self, OptionsError> {
        let mut options = Self::default();
        for flag in flags {
            if flag.contains(['\0', '\n']) {
                return Err(OptionsError::Character(flag.to_owned()));
            }
            for word in split_words(flag).ok_or_else(|| OptionsError::OpenQuote(flag.to_owned()))? {
                options.add(word)?;
            }
        }
        Ok(options)
    }

    /// Returns the options that mount(2) takes as flag bits.
    pub fn attributes(&self) -> &BTreeSet<Attribute> {
        &self.attributes
    }

    /// Returns the options for the file system, in the given order, joined by commas.
    pub fn data(&self) -> String {
        self.data.join(",")
    }

    pub fn words(&self) -> &[String] {
        &self.data
    }

    /// True if the mount must be read-only.
    pub fn is_read_only(&self) -> bool {
        self.attributes.contains(&Attribute::ReadOnly)
    }

    /// Returns the attributes in which mounts of one file system can differ: all that a bind mount can set.
    pub fn of_one_mount(&self) -> BTreeSet<Attribute> {
        let is_shared = |attribute: &Attribute| {
            use Attribute::{DirSync, InodeVersion, LazyTime, MandatoryLocks, Silent, Synchronous};
            matches!(attribute, DirSync | InodeVersion | LazyTime | MandatoryLocks | Silent | Synchronous)
        };
        self.attributes.iter().copied().filter(|attribute| !is_shared(attribute)).collect()
    }

    /// Makes the mount read-only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.attributes.insert(Attribute::ReadOnly);
        self
    }

    /// Adds a word for the file system unless it is present.
    #[must_use]
    pub(crate) fn with_word(mut self, word: &str) -> Self {
        if !self.data.iter().any(|have| have == word) {
            self.data.push(word.to_owned());
        }
        self
    }

    /// Drops the security labels, as mount(8) does when no security module is active: the kernel would reject them.
    #[must_use]
    pub fn without_security_labels(mut self) -> Self {
        self.data.retain(|word| !is_security_label(word));
        self
    }

    fn add(&mut self, word: &str) -> Result<(), OptionsError> {
        use Attribute as A;
        match word {
            "" | "defaults" | "auto" | "noauto" | "_netdev" | "nofail" | "nouser" | "nousers" | "noowner"
            | "nogroup" => {}
            "rw" => self.clear(&[A::ReadOnly]),
            "suid" => self.clear(&[A::NoSuid]),
            "dev" => self.clear(&[A::NoDev]),
            "exec" => self.clear(&[A::NoExec]),
            "async" => self.clear(&[A::Synchronous]),
            "loud" => self.clear(&[A::Silent]),
            "nomand" => self.clear(&[A::MandatoryLocks]),
            "noiversion" => self.clear(&[A::InodeVersion]),
            "nolazytime" => self.clear(&[A::LazyTime]),
            "symfollow" => self.clear(&[A::NoSymFollow]),
            "diratime" => self.clear(&[A::NoDirAtime]),
            "atime" => self.clear(&[A::NoAtime]),
            "norelatime" => self.clear(&[A::RelAtime]),
            "nostrictatime" => self.clear(&[A::StrictAtime]),
            "sync" => self.set(&[A::Synchronous]),
            "dirsync" => self.set(&[A::DirSync]),
            "lazytime" => self.set(&[A::LazyTime]),
            "mand" => self.set(&[A::MandatoryLocks]),
            "iversion" => self.set(&[A::InodeVersion]),
            "silent" => self.set(&[A::Silent]),
            "relatime" => self.set_access_time(A::RelAtime),
            "strictatime" => self.set_access_time(A::StrictAtime),
            "noatime" => self.set_access_time(A::NoAtime),
            // For flags that let other users mount, mount(8) adds these attributes.
            "user" | "users" => self.set(&[A::NoSuid, A::NoDev, A::NoExec]),
            "owner" | "group" => self.set(&[A::NoSuid, A::NoDev]),
            "bind" | "rbind" | "move" | "remount" | "shared" | "rshared" | "slave" | "rslave" | "private"
            | "rprivate" | "unbindable" | "runbindable" | "loop" => {
                return Err(OptionsError::NotAMount(word.to_owned()));
            }
            _ if is_for_mount_alone(word) => {}
            _ => match Attribute::of_one_mount(word) {
                Some(attribute) => self.set(&[attribute]),
                None => *self = std::mem::take(self).with_word(word),
            },
        }
        Ok(())
    }

    fn set(&mut self, attributes: &[Attribute]) {
        self.attributes.extend(attributes);
    }

    fn clear(&mut self, attributes: &[Attribute]) {
        self.attributes.retain(|have| !attributes.contains(have));
    }

    fn set_access_time(&mut self, attribute: Attribute) {
        self.clear(&[Attribute::RelAtime, Attribute::StrictAtime, Attribute::NoAtime]);
        self.set(&[attribute]);
    }
}

impl fmt::Display for MountOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attributes = self.attributes.iter().map(|attribute| attribute.word());
        f.write_str(&attributes.chain(self.data.iter().map(String::as_str)).collect::<Vec<_>>().join(","))
    }
}

/// True for a word that sets a security label. The security module reads it; it never reaches the file system.
pub(crate) fn is_security_label(word: &str) -> bool {
    const LABELS: [&str; 4] = ["context=", "fscontext=", "defcontext=", "rootcontext="];
    word == "seclabel" || LABELS.iter().any(|label| word.starts_with(label))
}

fn is_for_mount_alone(word: &str) -> bool {
    ["x-", "X-", "comment=", "uhelper=", "helper="].iter().any(|prefix| word.starts_with(prefix))
}

/// Splits at commas outside of double quotes. Returns `None` if a quote is not closed.
pub(crate) fn split_words(text: &str) -> Option<Vec<&str>> {
    let mut words = Vec::new();
    let (mut start, mut quoted) = (0, false);
    for (at, character) in text.char_indices() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => {
                words.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    words.push(&text[start..]);
    (!quoted).then_some(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(flags: &[&str]) -> MountOptions {
        MountOptions::parse(flags.iter().copied()).unwrap()
    }

    /// The last of conflicting words wins, words for mount(8) itself are dropped, and the rest are options of the file
    /// system.
    #[test]
    fn mount_flags_become_attributes_and_file_system_options() {
        use Attribute::{InodeVersion, NoAtime, NoDev, NoExec, NoSuid, ReadOnly, RelAtime};
        let mount8 = ["defaults", "_netdev", "nofail", "x-systemd.automount", "X-mount.mkdir", "auto"];
        for (flags, attributes, data) in [
            (
                &["ro", "noatime", "nodev", "nosuid", "noexec", "discard", "nouuid"][..],
                &[ReadOnly, NoAtime, NoDev, NoSuid, NoExec][..],
                "discard,nouuid",
            ),
            (&["iversion"], &[InodeVersion], ""),
            (&["iversion", "noiversion"], &[], ""),
            (&mount8, &[], ""),
            (&["ro", "rw"], &[], ""),
            (&["noatime", "relatime"], &[RelAtime], ""),
            (&["user", "exec", "suid", "dev"], &[], ""),
        ] {
            let options = parse(flags);
            let expected = (attributes.iter().copied().collect(), data.to_owned());
            assert_eq!((options.attributes().clone(), options.data()), expected, "{flags:?}");
        }
        assert_eq!(parse(&["iversion"]).of_one_mount(), BTreeSet::new());
    }

    #[test]
    fn quoted_commas_of_a_security_context_are_kept() {
        let context = r#"context="system_u:object_r:container_file_t:s0:c1,c2""#;
        let options = parse(&[context, "discard,noatime"]);
        assert_eq!(options.data(), format!("{context},discard"));
        assert_eq!(options.without_security_labels().data(), "discard");
    }

    #[test]
    fn mount_flags_that_request_another_action_are_rejected() {
        for word in ["bind", "remount", "move", "rshared", "loop"] {
            assert_eq!(MountOptions::parse([word]), Err(OptionsError::NotAMount(word.to_owned())));
        }
        assert!(matches!(MountOptions::parse([r#"context="a"#]), Err(OptionsError::OpenQuote(_))));
        assert!(matches!(MountOptions::parse(["a\0b"]), Err(OptionsError::Character(_))));
    }

    #[test]
    fn options_are_displayed_as_mount_flags() {
        let words = ["ro", "nosuid", "nodev", "noexec", "noatime", "nodiratime", "strictatime", "nosymfollow", "sync"];
        for word in words.iter().chain(&["dirsync", "lazytime", "mand", "iversion", "silent", "relatime", "discard"]) {
            assert_eq!(parse(&[word]).to_string(), *word);
        }
        assert_eq!(parse(&["discard,noatime", "errors=panic"]).to_string(), "noatime,discard,errors=panic");
        assert_eq!(Attribute::words(parse(&["noatime", "ro"]).attributes()), "ro,noatime");
        assert_eq!(Attribute::words(&BTreeSet::new()), "rw");
    }

    proptest! {
        #[test]
        fn splitting_and_joining_words_is_lossless(text in r#"[a-z=:,"]{0,40}"#) {
            match split_words(&text) {
                Some(words) => prop_assert_eq!(words.join(","), text),
                None => prop_assert_eq!(text.matches('"').count() % 2, 1),
            }
        }
    }
}
