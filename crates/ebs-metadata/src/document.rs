//! Parses the responses of the metadata service.

use ebs_ec2::{InstanceId, ZoneName};
use serde::Deserialize;

use crate::{Field, MetadataError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) instance: InstanceId,
    pub(crate) instance_type: String,
    pub(crate) region: String,
    pub(crate) zone: ZoneName,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    instance_id: Option<String>,
    instance_type: Option<String>,
    region: Option<String>,
    availability_zone: Option<String>,
}

pub(crate) fn identity(json: &str) -> Result<Identity, MetadataError> {
    let document: Document = serde_json::from_str(json).map_err(MetadataError::BadDocument)?;
    let there =
        |value: Option<String>, field| value.filter(|text| !text.is_empty()).ok_or(MetadataError::Missing { field });
    let instance = there(document.instance_id, Field::InstanceId)?;
    let instance_type = there(document.instance_type, Field::InstanceType)?;
    let region = there(document.region, Field::Region)?;
    let zone = there(document.availability_zone, Field::Zone)?;
    Ok(Identity {
        instance: InstanceId::parse(&instance)
            .map_err(|source| MetadataError::Invalid { field: Field::InstanceId, source })?,
        instance_type,
        region,
        zone: ZoneName::parse(&zone).map_err(|source| MetadataError::Invalid { field: Field::Zone, source })?,
    })
}

pub(crate) fn mac_addresses(listing: &str) -> u32 {
    count(listing, |line| is_mac(line.trim_end_matches('/')))
}

/// Returns the number of EBS volumes in a block-device mapping, which lists them as `ebs1`, `ebs2` ….
pub(crate) fn ebs_entries(listing: &str) -> u32 {
    count(listing, |line| line.starts_with("ebs"))
}

fn count(listing: &str, is: impl Fn(&str) -> bool) -> u32 {
    u32::try_from(listing.lines().filter(|line| is(line.trim())).count()).unwrap_or(u32::MAX)
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    parts.len() == 6 && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"instanceId":"i-0abc","instanceType":"m5.large","region":"us-west-2",
        "availabilityZone":"us-west-2a","kernelId":null,"accountId":"123456789012"}"#;

    #[test]
    fn identity_document_gives_instance_type_region_and_zone() {
        let identity = identity(GOOD).unwrap();
        assert_eq!(identity.instance.as_str(), "i-0abc");
        assert_eq!(identity.instance_type, "m5.large");
        assert_eq!(identity.region, "us-west-2");
        assert_eq!(identity.zone.as_str(), "us-west-2a");
    }

    #[test]
    fn error_names_a_missing_or_empty_identity_document_field() {
        for name in ["instanceId", "instanceType", "region", "availabilityZone"] {
            for json in [GOOD.replace(name, "other"), empty(name)] {
                let message = identity(&json).unwrap_err().to_string();
                assert!(message.contains("IMDS") && message.contains(name), "{message}");
            }
        }
    }

    fn empty(name: &str) -> String {
        let mut value: serde_json::Value = serde_json::from_str(GOOD).unwrap();
        value[name] = "".into();
        value.to_string()
    }

    #[test]
    fn invalid_identity_document_is_rejected() {
        assert!(matches!(identity("<html>"), Err(MetadataError::BadDocument(_))));
        let foreign = GOOD.replace("i-0abc", "mi-0abc");
        assert!(matches!(identity(&foreign), Err(MetadataError::Invalid { field: Field::InstanceId, .. })));
    }

    #[test]
    fn network_interfaces_are_counted_by_listed_mac_addresses() {
        assert_eq!(mac_addresses("0e:49:61:0f:c3:11/\n0E-49-61-0F-C3-12/\n"), 2);
        assert_eq!(mac_addresses("0e:49:61:0f:c3:11"), 1);
        assert_eq!(mac_addresses(""), 0);
        assert_eq!(mac_addresses("zz:49:61:0f:c3:11/\nipv4"), 0);
    }

    #[test]
    fn block_devices_are_counted_by_entries_that_start_with_ebs() {
        assert_eq!(ebs_entries("ami\nebs1\nebs27\nephemeral0\nroot\nswap"), 2);
        assert_eq!(ebs_entries("ami\nroot"), 0);
    }
}
