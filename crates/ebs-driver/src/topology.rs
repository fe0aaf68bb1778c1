//! Where a volume may be, and where it is (`controller.md` 6.9, 6.10).

use std::collections::{BTreeSet, HashMap};

use csi_proto::csi::{Topology as WireTerm, TopologyRequirement};
use ebs_cloud::{Term, Topology};
use ebs_types::{DriverName, IdError, ZoneId, ZoneName};

use crate::status::{IntoStatus, Meaning};

/// A place that cannot be one, or is not supported yet. Always InvalidArgument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// The value of a zone key.
    #[error("accessibility_requirements have a value for {key} that is not valid")]
    Zone {
        key: String,
        /// What is wrong with it.
        #[source]
        cause: IdError,
    },
    #[error(
        "accessibility_requirements ask for an Outpost ({key}), which this version of the driver does not support yet"
    )]
    Outpost { key: String },
}

impl IntoStatus for TopologyError {
    fn meaning(&self) -> Meaning {
        Meaning::InvalidArgument
    }
}

/// Reads the requirement. Each term gives its own zone or zone id, never a mix of two terms; a term that has a zone
/// name needs no id (`controller.md` C6, C7). Terms that say nothing about the place are dropped, and so are repeats.
///
/// # Errors
/// [`TopologyError`].
pub fn parse(requirement: Option<&TopologyRequirement>, driver: &DriverName) -> Result<Topology, TopologyError> {
    let Some(requirement) = requirement else { return Ok(Topology::default()) };
    Ok(Topology {
        preferred: terms(&requirement.preferred, driver)?,
        requisite: terms(&requirement.requisite, driver)?,
    })
}

/// The same requirement with its terms in one order: two requests that differ only in the order of terms are the
/// same request (`decisions.md` D-10).
pub fn in_one_order(topology: &Topology) -> Topology {
    let mut sorted = topology.clone();
    sorted.preferred.sort();
    sorted.requisite.sort();
    sorted
}

/// The accessible topology of a volume in `zone`.
pub fn of_zone(zone: &ZoneName) -> WireTerm {
    WireTerm { segments: HashMap::from([(DriverName::ZONE_KEY.to_owned(), zone.to_string())]) }
}

fn terms(wire: &[WireTerm], driver: &DriverName) -> Result<Vec<Term>, TopologyError> {
    let mut seen = BTreeSet::new();
    let mut terms = Vec::new();
    for term in wire {
        let term = parse_term(&term.segments, driver)?;
        if term != Term::default() && seen.insert(term.clone()) {
            terms.push(term);
        }
    }
    Ok(terms)
}

fn parse_term(segments: &HashMap<String, String>, driver: &DriverName) -> Result<Term, TopologyError> {
    let outpost = format!("topology.{driver}/outpost-id");
    let given = |key: &str| segments.get(key).filter(|value| !value.is_empty());
    if given(&outpost).is_some() {
        return Err(TopologyError::Outpost { key: outpost });
    }
    for key in [DriverName::ZONE_KEY, &driver.legacy_zone_key()] {
        if let Some(zone) = given(key) {
            let zone = ZoneName::parse(zone).map_err(|cause| TopologyError::Zone { key: key.to_owned(), cause })?;
            return Ok(Term { zone: Some(zone), zone_id: None, outpost_arn: None });
        }
    }
    let key = DriverName::ZONE_ID_KEY;
    let zone_id = given(key)
        .map(|id| ZoneId::parse(id).map_err(|cause| TopologyError::Zone { key: key.to_owned(), cause }))
        .transpose()?;
    Ok(Term { zone: None, zone_id, outpost_arn: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(segments: &[(&str, &str)]) -> WireTerm {
        WireTerm { segments: segments.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect() }
    }

    fn read(preferred: Vec<WireTerm>, requisite: Vec<WireTerm>) -> Result<Topology, TopologyError> {
        parse(Some(&TopologyRequirement { requisite, preferred }), &DriverName::default())
    }

    fn zone(name: &str) -> Term {
        Term { zone: Some(ZoneName::parse(name).expect("a zone")), zone_id: None, outpost_arn: None }
    }

    /// A topology term gives its zone under either key, and its zone id only without a zone.
    ///
    /// Rule: controller.md 6.9, C6, C7; D-3
    #[test]
    fn a_term_gives_its_zone_under_either_key_and_its_id_only_without_a_zone() {
        let got = read(
            vec![
                term(&[("topology.ebs.csi.aws.com/zone", "us-west-2b"), ("kubernetes.io/os", "linux")]),
                term(&[("topology.kubernetes.io/zone", "us-west-2a"), ("topology.k8s.aws/zone-id", "usw2-az9")]),
                term(&[("topology.k8s.aws/zone-id", "usw2-az3")]),
            ],
            vec![term(&[("kubernetes.io/os", "linux")])],
        )
        .expect("understood");
        let id = Term { zone: None, zone_id: Some(ZoneId::parse("usw2-az3").expect("an id")), outpost_arn: None };
        assert_eq!(got.preferred, [zone("us-west-2b"), zone("us-west-2a"), id]);
        assert!(got.requisite.is_empty());
    }

    #[test]
    fn preferred_terms_keep_their_order_but_order_makes_no_other_request() {
        let a = term(&[("topology.kubernetes.io/zone", "us-west-2a")]);
        let b = term(&[("topology.kubernetes.io/zone", "us-west-2b")]);
        let one = read(vec![b.clone(), a.clone(), b.clone()], vec![a.clone(), b.clone()]).expect("understood");
        let other = read(vec![a.clone(), b.clone()], vec![b, a]).expect("understood");
        assert_eq!(one.preferred, [zone("us-west-2b"), zone("us-west-2a")]);
        assert_ne!(one, other);
        assert_eq!(in_one_order(&one), in_one_order(&other));
    }

    /// Outposts are refused as not supported yet.
    ///
    /// Rule: controller.md C6 (for now)
    #[test]
    fn outposts_are_refused_as_not_supported_yet_and_bad_zones_by_name() {
        let error = read(vec![], vec![term(&[("topology.ebs.csi.aws.com/outpost-id", "op-1")])]).expect_err("refused");
        assert!(error.to_string().contains("not support yet"), "{error}");
        let error = read(vec![term(&[("topology.kubernetes.io/zone", "US West")])], vec![]).expect_err("refused");
        assert!(crate::status::chain(&error).contains("US West"), "{error}");
    }
}
