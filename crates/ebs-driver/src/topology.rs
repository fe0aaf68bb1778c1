//! Converts CSI topology: where a volume may be created, and where it is. Decision:
//! `docs/dev/decisions/0013-take-a-place-from-one-topology-term.md`.

use std::collections::{BTreeSet, HashMap};

use csi_proto::csi::{Topology as WireTerm, TopologyRequirement};
use ebs_cloud::{Term, Topology, Volume};
use ebs_ec2::{DriverName, IdError, OutpostArn, ZoneId, ZoneName};

/// An invalid topology. The code is always InvalidArgument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    #[error("accessibility_requirements have an invalid value for {key}")]
    Zone {
        key: String,
        #[source]
        cause: IdError,
    },
    #[error(
        "accessibility_requirements have a term with {given} and without {missing}; set the zone of the Outpost, and \
         either all of partition, region, account-id and outpost-id or its whole ARN in outpost-id"
    )]
    Incomplete { given: String, missing: String },
    #[error("accessibility_requirements name an invalid Outpost")]
    Outpost(#[source] IdError),
    #[error(
        "accessibility_requirements.requisite has a term with the key {key:?}, which this driver does not \
         support; use {known}"
    )]
    UnknownKey { key: String, known: String },
    #[error(
        "accessibility_requirements have a term with {zone:?} for {key} and {other:?} for {other_key}; correct one of them"
    )]
    TwoZones { key: String, zone: String, other_key: String, other: String },
    #[error(
        "accessibility_requirements have {value:?} for {key}, but the ARN in outpost-id has {arn:?}; correct one of them"
    )]
    Contradiction { key: String, value: String, arn: String },
}

/// Parses the requirement. The driver never combines two terms. It ignores the zone ID of a term with a zone name, and
/// drops repeated terms and terms without a zone.
///
/// The volume must be accessible from one of the required terms (CSI specification, TopologyRequirement), so an unknown
/// key in a required term is an error. Preferred terms are optional, so their unknown keys are ignored.
pub fn parse(requirement: Option<&TopologyRequirement>, driver: &DriverName) -> Result<Topology, TopologyError> {
    let Some(requirement) = requirement else { return Ok(Topology::default()) };
    for term in &requirement.requisite {
        check_keys(&term.segments, driver)?;
    }
    log_unknown_keys(&requirement.preferred, driver);
    Ok(Topology {
        preferred: terms(&requirement.preferred, driver)?,
        requisite: terms(&requirement.requisite, driver)?,
    })
}

/// Returns the operating systems that the required terms permit, or `None` when they permit any.
pub fn operating_systems(requirement: Option<&TopologyRequirement>) -> Option<BTreeSet<String>> {
    let terms = &requirement?.requisite;
    if terms.is_empty() {
        return None;
    }
    terms.iter().map(|term| term.segments.get(DriverName::OS_KEY).cloned()).collect()
}

/// Returns the valid keys of a term: the keys that nodes report, and the zone ID key.
fn known_keys(driver: &DriverName) -> [String; 8] {
    [
        DriverName::ZONE_KEY.to_owned(),
        driver.legacy_zone_key(),
        DriverName::ZONE_ID_KEY.to_owned(),
        DriverName::OS_KEY.to_owned(),
        driver.partition_key(),
        driver.region_key(),
        driver.account_key(),
        driver.outpost_key(),
    ]
}

/// Refuses a required term with unknown keys or only empty zones.
fn check_keys(segments: &HashMap<String, String>, driver: &DriverName) -> Result<(), TopologyError> {
    let known = known_keys(driver);
    if let Some(key) = segments.keys().filter(|key| !known.contains(key)).min() {
        return Err(TopologyError::UnknownKey { key: key.clone(), known: known.join(", ") });
    }
    let zones: Vec<(&String, &String)> = known[..3].iter().filter_map(|key| segments.get_key_value(key)).collect();
    if let Some((key, _)) = zones.first().filter(|_| zones.iter().all(|(_, zone)| zone.is_empty())) {
        let cause = ZoneName::parse("").err();
        return cause.map_or(Ok(()), |cause| Err(TopologyError::Zone { key: (*key).clone(), cause }));
    }
    Ok(())
}

fn log_unknown_keys(terms: &[WireTerm], driver: &DriverName) {
    let known = known_keys(driver);
    let unknown: BTreeSet<&String> =
        terms.iter().flat_map(|term| term.segments.keys()).filter(|key| !known.contains(key)).collect();
    if !unknown.is_empty() {
        tracing::warn!(?unknown, "ignoring unsupported keys of the preferred topology");
    }
}

/// Returns the requirement with sorted terms, because their order does not distinguish two requests.
pub fn in_one_order(topology: &Topology) -> Topology {
    let mut sorted = topology.clone();
    sorted.preferred.sort();
    sorted.requisite.sort();
    sorted
}

/// Returns the zone and Outpost of a volume, or `None` when EC2's description of the volume has no zone.
pub fn of_volume(volume: &Volume, driver: &DriverName) -> Result<Option<WireTerm>, IdError> {
    let Some(zone) = &volume.zone else { return Ok(None) };
    let mut segments = HashMap::from([(DriverName::ZONE_KEY.to_owned(), zone.to_string())]);
    if let Some(arn) = &volume.outpost_arn {
        segments.extend(of_outpost(&OutpostArn::parse(arn)?, driver));
    }
    Ok(Some(WireTerm { segments }))
}

/// Returns the segments that the nodes and volumes of an Outpost have.
pub fn of_outpost(outpost: &OutpostArn, driver: &DriverName) -> [(String, String); 4] {
    [
        (driver.partition_key(), outpost.partition().to_owned()),
        (driver.region_key(), outpost.region().to_owned()),
        (driver.account_key(), outpost.account().to_owned()),
        (driver.outpost_key(), outpost.outpost().to_owned()),
    ]
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
    let given = |key: &str| segments.get(key).map(String::as_str).filter(|value| !value.is_empty());
    let outpost_arn = outpost(given, driver)?.map(|arn| arn.to_string());
    let legacy = driver.legacy_zone_key();
    if let (Some(zone), Some(other)) = (given(DriverName::ZONE_KEY), given(&legacy))
        && zone != other
    {
        let (key, zone, other) = (DriverName::ZONE_KEY.to_owned(), zone.to_owned(), other.to_owned());
        return Err(TopologyError::TwoZones { key, zone, other_key: legacy, other });
    }
    for key in [DriverName::ZONE_KEY, &legacy] {
        if let Some(zone) = given(key) {
            let zone = ZoneName::parse(zone).map_err(|cause| TopologyError::Zone { key: key.to_owned(), cause })?;
            return Ok(Term { zone: Some(zone), zone_id: None, outpost_arn });
        }
    }
    let key = DriverName::ZONE_ID_KEY;
    let zone_id = given(key)
        .map(|id| ZoneId::parse(id).map_err(|cause| TopologyError::Zone { key: key.to_owned(), cause }))
        .transpose()?;
    if outpost_arn.is_some() && zone_id.is_none() {
        let missing = DriverName::ZONE_KEY.to_owned();
        return Err(TopologyError::Incomplete { given: driver.outpost_key(), missing });
    }
    Ok(Term { zone: None, zone_id, outpost_arn })
}

/// Returns the Outpost that a term names by its whole ARN or by its four parts.
fn outpost<'a>(
    given: impl Fn(&str) -> Option<&'a str>,
    driver: &DriverName,
) -> Result<Option<OutpostArn>, TopologyError> {
    let keys = [driver.partition_key(), driver.region_key(), driver.account_key(), driver.outpost_key()];
    let parts = keys.each_ref().map(|key| given(key));
    if let [.., Some(arn)] = parts
        && arn.starts_with("arn:")
    {
        let arn = OutpostArn::parse(arn).map_err(TopologyError::Outpost)?;
        let said = [arn.partition(), arn.region(), arn.account()];
        if let Some(((key, value), said)) =
            keys.iter().zip(parts).zip(said).find(|((_, value), said)| value.is_some_and(|value| value != *said))
        {
            let (value, arn) = (value.unwrap_or_default().to_owned(), said.to_owned());
            return Err(TopologyError::Contradiction { key: key.clone(), value, arn });
        }
        return Ok(Some(arn));
    }
    match parts {
        [None, None, None, None] => Ok(None),
        [Some(partition), Some(region), Some(account), Some(outpost)] => {
            let arn = format!("arn:{partition}:outposts:{region}:{account}:outpost/{outpost}");
            OutpostArn::parse(&arn).map(Some).map_err(TopologyError::Outpost)
        }
        _ => {
            let [missing, given] = [false, true].map(|there| {
                let mut keys = keys.iter().zip(&parts).filter(|(_, part)| part.is_some() == there).map(|(key, _)| key);
                keys.next_back().cloned().unwrap_or_default()
            });
            Err(TopologyError::Incomplete { given, missing })
        }
    }
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

    #[test]
    fn topology_term_uses_its_zone_name_or_else_its_zone_id() {
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
    fn order_of_preferred_terms_is_kept_but_not_compared() {
        let a = term(&[("topology.kubernetes.io/zone", "us-west-2a")]);
        let b = term(&[("topology.kubernetes.io/zone", "us-west-2b")]);
        let one = read(vec![b.clone(), a.clone(), b.clone()], vec![a.clone(), b.clone()]).expect("understood");
        let other = read(vec![a.clone(), b.clone()], vec![b, a]).expect("understood");
        assert_eq!(one.preferred, [zone("us-west-2b"), zone("us-west-2a")]);
        assert_ne!(one, other);
        assert_eq!(in_one_order(&one), in_one_order(&other));
    }

    const ARN: &str = "arn:aws:outposts:us-west-2:123456789012:outpost/op-0123456789abcdef0";

    #[test]
    fn topology_term_names_its_outpost_by_parts_or_by_arn() {
        let driver = DriverName::default();
        let arn = OutpostArn::parse(ARN).expect("an ARN");
        let by = |outpost: &[(String, String)], zone: (&str, &str)| {
            let mut term = term(&[zone]);
            term.segments.extend(outpost.iter().cloned());
            term
        };
        let in_parts = of_outpost(&arn, &driver);
        let whole = [(driver.outpost_key(), ARN.to_owned())];
        let agreeing = [whole[0].clone(), (driver.region_key(), "us-west-2".to_owned())];
        let name = (DriverName::ZONE_KEY, "us-west-2a");
        for outpost in [&in_parts[..], &whole, &agreeing] {
            let got = read(vec![], vec![by(outpost, name)]).expect("understood");
            assert_eq!(got.requisite, [Term { outpost_arn: Some(ARN.to_owned()), ..zone("us-west-2a") }]);
        }
        let got = read(vec![by(&whole, (DriverName::ZONE_ID_KEY, "usw2-az1"))], vec![]).expect("understood");
        let id = Some(ZoneId::parse("usw2-az1").expect("an id"));
        assert_eq!(got.preferred, [Term { zone: None, zone_id: id, outpost_arn: Some(ARN.to_owned()) }]);
    }

    /// The error names the missing key.
    #[test]
    fn error_for_an_incomplete_outpost_names_the_missing_key() {
        let driver = DriverName::default();
        let all = of_outpost(&OutpostArn::parse(ARN).expect("an ARN"), &driver);
        let refusal =
            |segments: &[(&str, &str)]| crate::status::chain(&read(vec![], vec![term(segments)]).expect_err("refused"));
        let zone = (DriverName::ZONE_KEY, "us-west-2a");
        for (missing, _) in &all {
            let there = all.iter().filter(|(key, _)| key != missing).map(|(key, value)| (key.as_str(), value.as_str()));
            let without: Vec<_> = there.chain([zone]).collect();
            let empty: Vec<_> = without.iter().copied().chain([(missing.as_str(), "")]).collect();
            for segments in [without, empty] {
                let message = refusal(&segments);
                assert!(message.contains(&format!("without {missing};")), "{message}");
            }
        }
        let keys = driver.outpost_key();
        let message = refusal(&[zone, (&keys, "op-0123456789abcdef0")]);
        assert!(message.contains(&format!("with {keys} and without {};", driver.account_key())), "{message}");
        let message = refusal(&[(&keys, ARN)]);
        assert!(message.contains("without topology.kubernetes.io/zone"), "{message}");
        let message = refusal(&[zone, (&keys, ARN), (&driver.region_key(), "eu-west-1")]);
        assert!(message.contains("eu-west-1") && message.contains("us-west-2"), "{message}");
        let message = refusal(&[zone, (&keys, "arn:aws:outposts:us-west-2:1:site/os-1")]);
        assert!(message.contains("site/os-1"), "{message}");
    }

    #[test]
    fn error_for_an_invalid_zone_names_the_zone() {
        let error = read(vec![term(&[("topology.kubernetes.io/zone", "US West")])], vec![]).expect_err("refused");
        assert!(crate::status::chain(&error).contains("US West"), "{error}");
    }

    const UNKNOWN: [&str; 5] = [
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "kubernetes.io/hostname",
        "Topology.kubernetes.io/zone",
        "topology.other.csi.aws.com/zone",
    ];

    /// The error lists the valid keys.
    #[test]
    fn unknown_key_of_a_required_term_is_refused() {
        let zone = (DriverName::ZONE_KEY, "us-west-2a");
        for key in UNKNOWN {
            for segments in [&[(key, "x")][..], &[zone, (key, "x")], &[zone, (key, "")]] {
                let error = read(vec![term(&[zone])], vec![term(&[zone]), term(segments)]).expect_err(key);
                let message = crate::status::chain(&error);
                for says in
                    [key, "requisite", DriverName::ZONE_KEY, DriverName::ZONE_ID_KEY, DriverName::OS_KEY, "outpost-id"]
                {
                    assert!(message.contains(says), "{says}: {message}");
                }
            }
        }
    }

    /// A preference is optional, so the driver uses the rest of the term.
    #[test]
    fn unknown_key_of_a_preferred_term_is_ignored() {
        for key in UNKNOWN {
            let both = term(&[(DriverName::ZONE_KEY, "us-west-2a"), (key, "x")]);
            let got = read(vec![term(&[(key, "x")]), both], vec![]).expect("understood");
            assert_eq!((got.preferred, got.requisite), (vec![zone("us-west-2a")], vec![]), "{key}");
        }
    }

    /// The provisioner copies the keys that nodes report into both lists.
    #[test]
    fn topology_keys_that_nodes_report_are_accepted() {
        use ebs_ec2::NodeId;
        use ebs_metadata::{BlockDevices, LimitFlags, NodeMetadata};
        let driver = DriverName::default();
        for outpost in [None, Some(OutpostArn::parse(ARN).expect("an ARN"))] {
            let metadata = NodeMetadata {
                node: NodeId::parse("i-0123456789abcdef0").expect("an id"),
                instance_type: "m5.large".to_owned(),
                region: "us-west-2".to_owned(),
                zone: ZoneName::parse("us-west-2a").expect("a zone"),
                outpost: outpost.clone(),
                network_interfaces: 1,
                block_devices: BlockDevices::Others(0),
            };
            let answer = crate::node_info::response(&metadata, &driver, &LimitFlags::default(), 0, "windows");
            let reported = answer.accessible_topology.expect("it has one");
            let got = read(vec![reported.clone()], vec![reported]).expect("understood");
            let outpost_arn = outpost.map(|arn| arn.to_string());
            assert_eq!(got.requisite, [Term { outpost_arn, ..zone("us-west-2a") }]);
            assert_eq!(got.preferred, got.requisite);
        }
    }

    /// The error names the key.
    #[test]
    fn contradictory_or_empty_zones_are_refused() {
        let driver = DriverName::default();
        let legacy = driver.legacy_zone_key();
        let both = term(&[(DriverName::ZONE_KEY, "us-west-2a"), (&legacy, "us-west-2b")]);
        for (preferred, requisite) in [(vec![both.clone()], vec![]), (vec![], vec![both])] {
            let message = crate::status::chain(&read(preferred, requisite).expect_err("refused"));
            for says in [&legacy, "us-west-2a", "us-west-2b"] {
                assert!(message.contains(says), "{message}");
            }
        }
        for key in [DriverName::ZONE_KEY, &legacy, DriverName::ZONE_ID_KEY] {
            let message = crate::status::chain(&read(vec![], vec![term(&[(key, "")])]).expect_err("refused"));
            assert!(message.contains(key), "{message}");
        }
        let agreeing = term(&[(DriverName::ZONE_KEY, "us-west-2a"), (&legacy, "us-west-2a")]);
        assert_eq!(read(vec![], vec![agreeing]).expect("understood").requisite, [zone("us-west-2a")]);
    }
}
