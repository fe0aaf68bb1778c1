//! The versions of a group: their format and their order.

use std::fmt;
use std::str::FromStr;

/// The version of a group, such as `v1alpha2`. The order is by age: `v1alpha2 < v1beta1 < v1beta3 < v1 < v2alpha1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    major: u32,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Stage {
    Alpha(u32),
    Beta(u32),
    Stable,
}

/// Reports a malformed version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("parse version {text:?}: it is invalid; use a version such as v1, v1beta2 or v2alpha1")]
pub struct BadVersion {
    text: String,
}

impl Version {
    pub(crate) const fn alpha(major: u32, number: u32) -> Self {
        Self { major, stage: Stage::Alpha(number) }
    }

    pub(crate) const fn beta(major: u32, number: u32) -> Self {
        Self { major, stage: Stage::Beta(number) }
    }

    pub(crate) const fn stable(major: u32) -> Self {
        Self { major, stage: Stage::Stable }
    }
}

impl FromStr for Version {
    type Err = BadVersion;

    fn from_str(text: &str) -> Result<Self, BadVersion> {
        parse(text).ok_or_else(|| BadVersion { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<Version> {
    let (major, rest) = leading_number(text.strip_prefix('v')?)?;
    let stage = if let Some(number) = rest.strip_prefix("alpha") {
        Stage::Alpha(whole_number(number)?)
    } else if let Some(number) = rest.strip_prefix("beta") {
        Stage::Beta(whole_number(number)?)
    } else if rest.is_empty() {
        Stage::Stable
    } else {
        return None;
    };
    Some(Version { major, stage })
}

fn leading_number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    if number.starts_with('0') {
        return None;
    }
    Some((number.parse().ok()?, rest))
}

fn whole_number(text: &str) -> Option<u32> {
    let (number, rest) = leading_number(text)?;
    rest.is_empty().then_some(number)
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "v{}", self.major)?;
        match self.stage {
            Stage::Alpha(number) => write!(formatter, "alpha{number}"),
            Stage::Beta(number) => write!(formatter, "beta{number}"),
            Stage::Stable => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions_are_ordered_by_major_number_stage_and_number() {
        let ordered = ["v1alpha1", "v1alpha2", "v1alpha10", "v1beta1", "v1beta3", "v1", "v2alpha1", "v2", "v10alpha1"];
        let versions: Vec<Version> = ordered.iter().map(|text| text.parse().unwrap()).collect();
        assert!(versions.is_sorted());
        assert!(versions.windows(2).all(|pair| pair[0] < pair[1]), "{versions:?}");
    }

    #[test]
    fn malformed_version_is_rejected() {
        let bad = "|v|v0|v01|V1|1|v1alpha|v1alpha0|v1alpha01|v1rc1|v1beta1x| v1|v1 |v-1|v1alphabeta1|v1beta1alpha1|v99999999999";
        for text in bad.split('|') {
            assert!(text.parse::<Version>().is_err(), "{text:?} was taken");
        }
    }

    proptest! {
        #[test]
        fn version_round_trips_through_text(text in "v[1-9][0-9]{0,5}((alpha|beta)[1-9][0-9]{0,5})?") {
            prop_assert_eq!(text.parse::<Version>().unwrap().to_string(), text);
        }
    }
}
