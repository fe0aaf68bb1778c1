//! An exhibit: a disk, the steps that create its contents, and the words that the driver's refusal must contain.

use std::ops::Range;

pub(crate) const KIB: u64 = 1024;
pub(crate) const MIB: u64 = 1024 * KIB;
pub(crate) const GIB: u64 = 1024 * MIB;
pub(crate) const TIB: u64 = 1024 * GIB;

/// A position on a disk, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// Counted from the start of the disk.
    At(u64),
    /// Counted backwards from the end of the disk.
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

/// One of the steps that make an exhibit.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Run a program, with the device as its last argument.
    Run(&'static str, &'static [&'static str]),
    /// Write bytes at a position.
    Write(Place, Vec<u8>),
    /// Overwrite a number of bytes with zeros, starting at a position.
    Zero(Place, u64),
    /// Make the volume larger and grow its mounted xfs, as after an expansion.
    GrowXfs(u64),
}

impl Step {
    /// Describes the step for the documentation.
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

/// Formats a number of bytes in the largest unit that divides it.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes} bytes"), |(unit, name)| format!("{} {name}", bytes / unit))
}

/// A part of the error message that the driver must return.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    Words(String),
    /// The message reports data of an unknown kind whose first byte is at an offset in this range.
    Between(u64, u64),
}

impl Told {
    /// Returns true when the message contains this part.
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

    /// Describes this part for the documentation.
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
    /// The file system that the request asks for.
    pub(crate) asked: &'static str,
    pub(crate) made: Vec<Step>,
    /// The parts of the message that the driver must return: the kind of contents and the position.
    pub(crate) told: Vec<Told>,
}

impl Exhibit {
    /// Creates an exhibit for a request with ext4.
    pub(crate) fn new(name: &'static str, bytes: u64, made: Vec<Step>, told: &[&str]) -> Self {
        let told = told.iter().map(|words| Told::Words((*words).to_owned())).collect();
        Self { name, bytes, asked: "ext4", made, told }
    }

    /// Works like [`Exhibit::new`], but expects a message that reports only the position of the first byte.
    pub(crate) fn seen_at(name: &'static str, bytes: u64, made: Vec<Step>, offset: u64) -> Self {
        Self::seen_between(name, bytes, made, offset..offset + 1)
    }

    /// Works like [`Exhibit::seen_at`], but accepts several positions of the first byte.
    pub(crate) fn seen_between(name: &'static str, bytes: u64, made: Vec<Step>, places: Range<u64>) -> Self {
        Self { name, bytes, asked: "ext4", made, told: vec![Told::Between(places.start, places.end)] }
    }

    /// Sets the file system that the request asks for.
    pub(crate) fn asked(self, asked: &'static str) -> Self {
        Self { asked, ..self }
    }
}
