//! How many IOPS a volume type may have in a place: asked of EC2 by a dry run that asks for too many and is told the
//! maximum (`ebs-cloud.md` 3.3). Only asked when a request names IOPS at all.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ebs_calls::{RateLimited, SharedAnswers};
use ebs_ec2::{CreateVolume, Ec2, Ec2Error, Place, Volumes as _};
use ebs_types::{DriverName, Gib, Iops, IopsLimits, IopsRequest, Tags, VolumeType};
use regex_lite::Regex;
use tokio::time::timeout;

use super::client_token::token;
use crate::bounds;

const LIFETIME: Duration = Duration::from_secs(12 * 3600);
const LIFETIME_OF_FAILURE: Duration = Duration::from_secs(300);
const FAR_TOO_MANY: Iops = 2_147_483_647;
const PROBE_NAME: &str = "IopsLimitDryRun";

static TOO_HIGH: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?is)volume iops.*?is too high.*?maximum is\s*([0-9]+)").expect("the pattern is constant and tested")
});
static THOUSANDS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)([0-9]+)k iops").expect("the pattern is constant and tested"));

/// Where a volume is or is to be.
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

/// IOPS that are asked for, and the volume they are for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IopsQuery<'a> {
    pub(crate) volume_type: &'a VolumeType,
    pub(crate) site: &'a Site,
    pub(crate) iops: IopsRequest,
    pub(crate) size: Gib,
}

/// Asks for limits and remembers the answers; failures briefly.
#[derive(Debug)]
pub(crate) struct IopsLimitProbe<E> {
    ec2: Arc<RateLimited<E>>,
    known: SharedAnswers<(VolumeType, Site), Option<Iops>, Infallible>,
}

impl<E: Ec2> IopsLimitProbe<E> {
    pub(crate) fn new(ec2: Arc<RateLimited<E>>) -> Self {
        Self { ec2, known: SharedAnswers::default() }
    }

    /// The limits of the type there; `None` for types whose IOPS cannot be chosen. EC2 is asked only when the query
    /// is for more than the type can have everywhere. Never fails: without an answer within [`bounds::PROBE`] the
    /// published limits count. `tags` are those that EC2 permissions may ask for.
    pub(crate) async fn limits(&self, query: &IopsQuery<'_>, tags: Tags) -> Option<IopsLimits> {
        let published = query.volume_type.iops_limits()?;
        let without_max = IopsLimits { max: 0, ..published };
        if query.iops.resolve(query.size, Some(without_max), false) <= Some(safe_everywhere(query.volume_type)) {
            return Some(published);
        }
        let key = (query.volume_type.clone(), query.site.clone());
        let ask = async {
            let max = self.probe(query, tags).await;
            Ok((max, if max.is_some() { LIFETIME } else { LIFETIME_OF_FAILURE }))
        };
        let Ok(max) = self.known.get(&key, ask).await;
        Some(IopsLimits { max: max.unwrap_or(published.max), ..published })
    }

    async fn probe(&self, query: &IopsQuery<'_>, mut tags: Tags) -> Option<Iops> {
        let IopsQuery { volume_type, site, .. } = query;
        tags.insert(DriverName::VOLUME_NAME_TAG.to_owned(), PROBE_NAME.to_owned());
        let request = CreateVolume {
            client_token: token(&format!("{PROBE_NAME}|{volume_type}|{site}")),
            place: site.place.clone(),
            size: Gib(4),
            volume_type: (*volume_type).clone(),
            iops: Some(FAR_TOO_MANY),
            throughput: None,
            encrypted: false,
            kms_key_id: None,
            snapshot: None,
            initialization_rate: None,
            multi_attach: false,
            outpost_arn: site.outpost_arn.clone(),
            tags,
            dry_run: true,
        };
        // A dry run changes nothing, so this call may be dropped.
        let answer = timeout(bounds::PROBE, self.ec2.for_awaited_read(bounds::PROBE).create_volume(&request)).await;
        let max = match &answer {
            Ok(Err(error)) => parse_maximum(error),
            Ok(Ok(_)) | Err(_) => None,
        };
        if max.is_none() {
            tracing::info!(%volume_type, %site, ?answer, "EC2 did not tell the IOPS limit, the published one is assumed");
        }
        max
    }
}

/// What a volume of the type can have wherever the type exists.
fn safe_everywhere(volume_type: &VolumeType) -> Iops {
    match volume_type {
        VolumeType::Gp3 => 16_000,
        VolumeType::Io1 | VolumeType::Io2 => 64_000,
        _ => 0,
    }
}

/// The maximum that the refusal names; 0: none applies; `None`: it names none.
fn parse_maximum(error: &Ec2Error) -> Option<Iops> {
    let text = error.to_string();
    if text.contains("parameter iops is not supported") {
        return Some(0);
    }
    let number = |pattern: &Regex| pattern.captures(&text).map(|c| c[1].parse::<u64>().unwrap_or(u64::MAX));
    let max = match number(&TOO_HIGH) {
        Some(n) => n,
        None => number(&THOUSANDS)?.saturating_mul(1000),
    };
    i32::try_from(max).ok().and_then(|n| Iops::try_from(n).ok())
}

#[cfg(test)]
mod tests {
    use ebs_ec2::{Action, ErrorClass};

    use super::*;

    fn parse_message(message: &str) -> Option<Iops> {
        parse_maximum(&Ec2Error::new(Action::CreateVolume, ErrorClass::InvalidParameter, message))
    }

    /// The probe's refusal is read in each of its known forms.
    ///
    /// Rule: ebs-cloud.md 3.3
    #[test]
    fn the_limit_is_read_from_each_known_form_of_the_refusal() {
        assert_eq!(parse_message("Volume iops of 2147483647 is too high; maximum is 16000."), Some(16_000));
        assert_eq!(parse_message("io2 volumes support at most 256K IOPS here"), Some(256_000));
        assert_eq!(parse_message("The parameter iops is not supported for gp2 volumes."), Some(0));
        assert_eq!(parse_message("Request would have succeeded, but DryRun flag is set."), None);
        assert_eq!(parse_message("volume iops is too high; maximum is 99999999999"), None);
        assert_eq!(parse_message("99999999k iops"), None);
    }
}
