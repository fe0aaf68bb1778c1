//! Compares the names of KMS keys.

/// Returns false if the two names certainly belong to different KMS keys.
///
/// EC2 accepts an id (also as `key/<id>`), an ARN, an alias or an alias ARN (EC2 API reference, CreateVolume,
/// `KmsKeyId`), and reports the ARN. Only KMS knows the key behind an alias. Ids are hexadecimal, in either case.
pub fn may_be_one_kms_key(one: &str, other: &str) -> bool {
    match (KeyName::parse(one), KeyName::parse(other)) {
        (KeyName::Alias, _) | (_, KeyName::Alias) => true,
        (KeyName::Arn(one), KeyName::Arn(other)) => one.eq_ignore_ascii_case(other),
        (one, other) => one.id().eq_ignore_ascii_case(other.id()),
    }
}

#[derive(Debug, Clone, Copy)]
enum KeyName<'a> {
    Alias,
    /// An ARN with region, account and id. The replicas of a multi-region key share their id but are different keys.
    Arn(&'a str),
    Id(&'a str),
}

impl<'a> KeyName<'a> {
    fn parse(name: &'a str) -> Self {
        let resource = if name.starts_with("arn:") { name.rsplit(':').next().unwrap_or(name) } else { name };
        if resource.starts_with("alias/") {
            Self::Alias
        } else if name.starts_with("arn:") {
            Self::Arn(name)
        } else {
            Self::Id(resource)
        }
    }

    fn id(self) -> &'a str {
        match self {
            Self::Alias => "",
            Self::Arn(name) | Self::Id(name) => name.rsplit('/').next().unwrap_or(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "1234abcd-12ab-34cd-56ef-1234567890ab";

    fn arn(region: &str, resource: &str) -> String {
        format!("arn:aws:kms:{region}:123456789012:{resource}")
    }

    #[test]
    fn every_spelling_of_a_kms_key_may_match_that_key() {
        let shown = arn("us-west-2", &format!("key/{ID}"));
        let spellings = [
            ID.to_owned(),
            ID.to_uppercase(),
            format!("key/{ID}"),
            shown.clone(),
            "alias/mine".to_owned(),
            arn("us-west-2", "alias/mine"),
            arn("us-west-2", "alias/aws/ebs"),
        ];
        for spelling in spellings {
            assert!(may_be_one_kms_key(&spelling, &shown) && may_be_one_kms_key(&shown, &spelling), "{spelling}");
        }
    }

    #[test]
    fn kms_key_with_other_id_region_or_account_does_not_match() {
        let shown = arn("us-west-2", "key/mrk-1234abcd12ab34cd56ef1234567890ab");
        let others = [
            ID.to_owned(),
            format!("key/{ID}"),
            "mrk-1234abcd12ab34cd56ef1234567890ac".to_owned(),
            "1234abcd12ab34cd56ef1234567890ab".to_owned(),
            arn("eu-west-1", "key/mrk-1234abcd12ab34cd56ef1234567890ab"),
            shown.replace("123456789012", "210987654321"),
            String::new(),
        ];
        for other in others {
            assert!(!may_be_one_kms_key(&other, &shown) && !may_be_one_kms_key(&shown, &other), "{other}");
        }
    }

    proptest! {
        #[test]
        fn every_kms_key_name_may_match_itself_and_any_alias(name in ".{0,40}") {
            prop_assert!(may_be_one_kms_key(&name, &name));
            prop_assert!(may_be_one_kms_key(&name, "alias/any"));
        }
    }
}
