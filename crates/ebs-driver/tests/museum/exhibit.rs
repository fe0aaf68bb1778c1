//! What an exhibit is: a disk, how it came to hold what it holds, and what the refusal must say.

use std::ops::Range;

pub(crate) const KIB: u64 = 1024;
pub(crate) const MIB: u64 = 1024 * KIB;
pub(crate) const GIB: u64 = 1024 * MIB;
pub(crate) const TIB: u64 = 1024 * GIB;

/// A place on a disk, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// From the start.
    At(u64),
    /// Back from the end.
    Back(u64),
}

impl Place {
    pub(crate) fn on(self, bytes: u64) -> u64 {
        match self {
            Self::At(offset) => offset,
            Self::Back(back) => bytes - back,
        }
    }

    fn words(self) -> String {
        match self {
            Self::At(0) => "at the start".to_owned(),
            Self::At(offset) => format!("at {}", size(offset)),
            Self::Back(back) => format!("{} before the end", size(back)),
        }
    }
}

/// One step of making an exhibit.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A program; the device is its last argument.
    Run(&'static str, &'static [&'static str]),
    /// Bytes written at a place.
    Write(Place, Vec<u8>),
    /// So many bytes from a place on overwritten with zeros.
    Zero(Place, u64),
    /// The volume is made larger and the xfs on it grown, mounted, as after an expansion.
    GrowXfs(u64),
}

impl Step {
    /// For people.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Run(program, args) => format!("`{}`", [&[*program], *args].concat().join(" ")),
            Self::Write(place, bytes) if bytes.len() == 1 => format!("one byte written {}", place.words()),
            Self::Write(place, bytes) => {
                let length = u64::try_from(bytes.len()).expect("a length");
                format!("{} written {}", size(length), place.words())
            }
            Self::Zero(place, length) => format!("{} zeroed {}", size(*length), place.words()),
            Self::GrowXfs(bytes) => format!("grown to {}", size(*bytes)),
        }
    }
}

/// A number of bytes in the largest unit that divides it.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes} bytes"), |(unit, name)| format!("{} {name}", bytes / unit))
}

/// What a refusal must say.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    /// These words.
    Words(String),
    /// Bytes of unknown kind, and that the first of them is one of these.
    Between(u64, u64),
}

impl Told {
    /// True when a refusal says it.
    pub(crate) fn is_said_in(&self, said: &str) -> bool {
        match self {
            Self::Words(words) => said.contains(words),
            Self::Between(from, to) => {
                let rest = said.split_once("data of unknown kind (first seen at byte ").map(|(_, rest)| rest);
                let byte = rest.and_then(|rest| rest.split_once(')')?.0.parse::<u64>().ok());
                byte.is_some_and(|byte| (*from..*to).contains(&byte))
            }
        }
    }

    /// For people.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Words(words) => words.clone(),
            Self::Between(from, to) if *to == from + 1 => format!("byte {from}"),
            Self::Between(from, to) => format!("a byte from {from} on and before {to}"),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Exhibit {
    pub(crate) name: &'static str,
    /// The size of the disk.
    pub(crate) bytes: u64,
    /// The file system that is asked for.
    pub(crate) asked: &'static str,
    pub(crate) made: Vec<Step>,
    /// What the refusal must say: the kind, the place.
    pub(crate) told: Vec<Told>,
}

impl Exhibit {
    /// A disk that is asked to become an ext4.
    pub(crate) fn new(name: &'static str, bytes: u64, made: Vec<Step>, told: &[&str]) -> Self {
        let told = told.iter().map(|words| Told::Words((*words).to_owned())).collect();
        Self { name, bytes, asked: "ext4", made, told }
    }

    /// As [`Exhibit::new`], told by the place of the first byte alone.
    pub(crate) fn seen_at(name: &'static str, bytes: u64, made: Vec<Step>, offset: u64) -> Self {
        Self::seen_between(name, bytes, made, offset..offset + 1)
    }

    /// As [`Exhibit::seen_at`], where one of several bytes is the first.
    pub(crate) fn seen_between(name: &'static str, bytes: u64, made: Vec<Step>, places: Range<u64>) -> Self {
        Self { name, bytes, asked: "ext4", made, told: vec![Told::Between(places.start, places.end)] }
    }

    /// The file system that is asked for.
    pub(crate) fn asked(self, asked: &'static str) -> Self {
        Self { asked, ..self }
    }
}
