//! The condition keys that the simulated EC2, KMS and SageMaker provide.

/// The single-valued attributes of a request, by their names in policies.
const ATTRIBUTES: [&str; 7] = [
    "aws:RequestedRegion",
    "ec2:AvailabilityZone",
    "ec2:Encrypted",
    "ec2:Region",
    "ec2:VolumeType",
    "kms:GrantIsForAWSResource",
    "kms:ViaService",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    RequestTag(String),
    ResourceTag(String),
    PrincipalTag(String),
    /// The keys of all request tags. Only this condition key can have several values here.
    TagKeys,
    /// The action that creates the resource and also tags it.
    CreateAction,
    Attribute(&'static str),
}

impl Key {
    /// Parses a condition key. Its name is not case-sensitive.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, tag) = text.split_once('/').map_or((text, None), |(name, tag)| (name, Some(tag)));
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
        match tag {
            Some("") => Err(format!("{text:?} has no tag after the slash")),
            Some(tag) if is("aws:RequestTag") => Ok(Self::RequestTag(tag.to_owned())),
            Some(tag) if is("aws:ResourceTag") || is("ec2:ResourceTag") => Ok(Self::ResourceTag(tag.to_owned())),
            Some(tag) if is("aws:PrincipalTag") => Ok(Self::PrincipalTag(tag.to_owned())),
            None if is("aws:TagKeys") => Ok(Self::TagKeys),
            None if is("ec2:CreateAction") => Ok(Self::CreateAction),
            None if ATTRIBUTES.iter().any(|known| is(known)) => {
                let known = ATTRIBUTES.into_iter().find(|known| is(known));
                Ok(Self::Attribute(known.expect("the match guard has found it")))
            }
            _ => Err(format!(
                "unsupported condition key {text:?}; use aws:RequestTag/…, aws:ResourceTag/…, ec2:ResourceTag/…, aws:PrincipalTag/…, aws:TagKeys, ec2:CreateAction, {}",
                ATTRIBUTES.join(", ")
            )),
        }
    }

    /// Returns the condition key, unless it can have several values.
    pub(super) fn single(self, text: &str) -> Result<Self, String> {
        match self {
            Self::TagKeys => Err(format!("{text} has several values, which a variable does not support")),
            key => Ok(key),
        }
    }
}
