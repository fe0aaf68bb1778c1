//! The maximum IOPS of a volume type in a zone or Outpost. EC2 names the maximum when it refuses more. This module
//! learns it from a dry run that requests far too many IOPS, and from real calls.
//!
//! While EC2 has not named a maximum, the driver requests the IOPS unchanged, and EC2 decides. The reference driver's
//! built-in table would make a volume slower than requested, without a message to the user.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ebs_ec2::{
    Action, CreateVolume, DriverName, Ec2, Ec2Error, ErrorClass, Gib, Iops, IopsLimits, IopsRequest, Place, Tags,
    VolumeType, Volumes as _,
};
use regex_lite::Regex;
use tokio::time::timeout;

use super::client_token::token;
use crate::timeouts;
use crate::traffic::{BucketKey, RateLimited, SharedAnswers};

const LIFETIME: Duration = Duration::from_secs(12 * 3600);
const LIFETIME_OF_FAILURE: Duration = Duration::from_secs(300);
const FAR_TOO_MANY: Iops = 2_147_483_647;
const PROBE_NAME: &str = "IopsLimitDryRun";

static TOO_HIGH: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?is)volume iops.*?is too high.*?maximum is\s*([0-9]+)").expect("the pattern is constant and tested")
});
static THOUSANDS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)([0-9]+)k iops").expect("the pattern is constant and tested"));

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Site {
    pub(crate) place: Place,
    pub(crate) outpost_arn: Option<String>,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = match &self.place {
            Place::Zone(zone) => zone.as_str(),
            Place::ZoneId(id) => id.as_str(),
        };
        match &self.outpost_arn {
            None => f.write_str(zone),
            Some(outpost) => write!(f, "{outpost} in {zone}"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct IopsQuery<'a> {
    pub(crate) volume_type: &'a VolumeType,
    pub(crate) site: &'a Site,
    pub(crate) iops: IopsRequest,
    pub(crate) size: Gib,
}

enum Probed {
    /// The maximum that EC2 named. 0 means that no maximum applies.
    Maximum(Iops),
    NoAnswer,
    /// The dry run was not sent, because other calls need the tokens.
    NotSent,
}

/// Gets IOPS limits from EC2 and caches them. It caches failures for a short time only.
#[derive(Debug)]
pub(crate) struct IopsLimitProbe<E> {
    ec2: Arc<RateLimited<E>>,
    known: SharedAnswers<(VolumeType, Site), Option<Iops>, Infallible>,
}

impl<E: Ec2> IopsLimitProbe<E> {
    pub(crate) fn new(ec2: Arc<RateLimited<E>>) -> Self {
        Self { ec2, known: SharedAnswers::default() }
    }

    /// Returns the IOPS limits of the type at the site, or `None` for types without a choice of IOPS. The limits have
    /// no maximum until EC2 names one. Calls EC2 only if the query is for more IOPS than every zone supports for the
    /// type, and waits at most [`timeouts::PROBE`]. `tags` are the tags that an IAM policy may require.
    pub(crate) async fn limits(&self, query: &IopsQuery<'_>, tags: Tags) -> Option<IopsLimits> {
        let unlimited = query.volume_type.iops_limits()?.with_max(None);
        if let Some(Some(max)) = self.known.cached(&key(query.volume_type, query.site)) {
            return Some(unlimited.with_max(Some(max)));
        }
        if query.iops.resolve(query.size, Some(unlimited), false) <= Some(safe_everywhere(query.volume_type)) {
            return Some(unlimited);
        }
        let ask = async {
            Ok(match self.probe(query, tags).await {
                Probed::Maximum(max) => (Some(max), LIFETIME),
                Probed::NoAnswer => (None, LIFETIME_OF_FAILURE),
                Probed::NotSent => (None, Duration::ZERO),
            })
        };
        let Ok(max) = self.known.get(&key(query.volume_type, query.site), ask).await;
        Some(unlimited.with_max(max))
    }

    /// Learns the maximum from EC2's refusal of `asked` IOPS. Returns true if the refusal names a lower one.
    pub(crate) fn learn(&self, volume_type: &VolumeType, site: &Site, asked: Iops, refusal: &Ec2Error) -> bool {
        let is_about_values = matches!(refusal.class, ErrorClass::InvalidParameter | ErrorClass::Unsupported);
        let max = parse_maximum(refusal).filter(|max| is_about_values && (1..asked).contains(max));
        if let Some(max) = max {
            tracing::info!(%volume_type, %site, asked, max, "learned the maximum IOPS from an EC2 error");
            self.known.set(key(volume_type, site), Some(max), LIFETIME);
        }
        max.is_some()
    }

    /// Sends a dry run with a client token of its own. A dry run must not use the token of the creation that waits for
    /// its result.
    async fn probe(&self, query: &IopsQuery<'_>, mut tags: Tags) -> Probed {
        let IopsQuery { volume_type, site, .. } = query;
        tags.insert(DriverName::VOLUME_NAME_TAG.to_owned(), PROBE_NAME.to_owned());
        let token = token(&format!("{PROBE_NAME}|{volume_type}|{site}"));
        let request = CreateVolume {
            iops: Some(FAR_TOO_MANY),
            outpost_arn: site.outpost_arn.clone(),
            tags,
            dry_run: true,
            ..CreateVolume::plain(token, site.place.clone(), Gib(4), (*volume_type).clone())
        };
        let spare = self.ec2.for_awaited_read(timeouts::PROBE).acquired_spare(BucketKey::of(Action::CreateVolume));
        let Some(ec2) = spare else { return Probed::NotSent };
        // A dry run changes nothing, so the timeout may drop this call.
        let answer = timeout(timeouts::PROBE, ec2.create_volume(&request)).await;
        let named = answer.as_ref().ok().and_then(|answer| parse_maximum(answer.as_ref().err()?));
        if let Some(max) = named {
            return Probed::Maximum(max);
        }
        tracing::info!(%volume_type, %site, ?answer, "the EC2 error contains no maximum IOPS, assuming no limit");
        Probed::NoAnswer
    }
}

fn key(volume_type: &VolumeType, site: &Site) -> (VolumeType, Site) {
    (volume_type.clone(), site.clone())
}

fn safe_everywhere(volume_type: &VolumeType) -> Iops {
    match volume_type {
        VolumeType::Gp3 => 16_000,
        VolumeType::Io1 | VolumeType::Io2 => 64_000,
        _ => 0,
    }
}

/// Returns the maximum that the refusal names, or `None` if it names none. 0 means that no maximum applies.
fn parse_maximum(error: &Ec2Error) -> Option<Iops> {
    let text = error.to_string();
    if text.contains("parameter iops is not supported") {
        return Some(0);
    }
    let number = |pattern: &Regex| pattern.captures(&text).map(|c| c[1].parse::<u64>().unwrap_or(u64::MAX));
    let max = number(&TOO_HIGH).or_else(|| Some(number(&THOUSANDS)?.saturating_mul(1000)))?;
    i32::try_from(max).ok().and_then(|n| Iops::try_from(n).ok())
}

#[cfg(test)]
mod tests {
    use ebs_ec2::{Action, ErrorClass};

    use super::*;

    fn parse_message(message: &str) -> Option<Iops> {
        parse_maximum(&Ec2Error::new(Action::CreateVolume, ErrorClass::InvalidParameter, message))
    }

    #[test]
    fn maximum_iops_is_parsed_from_each_form_of_refusal() {
        assert_eq!(parse_message("Volume iops of 2147483647 is too high; maximum is 16000."), Some(16_000));
        assert_eq!(parse_message("io2 volumes support at most 256K IOPS here"), Some(256_000));
        assert_eq!(parse_message("The parameter iops is not supported for gp2 volumes."), Some(0));
        assert_eq!(parse_message("Request would have succeeded, but DryRun flag is set."), None);
        assert_eq!(parse_message("volume iops is too high; maximum is 99999999999"), None);
        assert_eq!(parse_message("99999999k iops"), None);
    }
}
