//! The request that is sent to EC2 for a volume: computed once for a name and then kept, so that every retry sends
//! the same (`ebs-cloud.md` E8).

use ebs_ec2::{CopyVolume, CreateVolume, Ec2, Ec2Error, Volume};
use ebs_types::Gib;

use super::iops_limit::Site;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CreateRequest {
    Create(CreateVolume),
    Copy(CopyVolume),
}

impl CreateRequest {
    pub(super) fn with_token(self, client_token: String) -> Self {
        match self {
            Self::Create(request) => Self::Create(CreateVolume { client_token, ..request }),
            Self::Copy(request) => Self::Copy(CopyVolume { client_token, ..request }),
        }
    }

    /// Where it creates; `None`: where the source is.
    pub(super) fn site(&self) -> Option<Site> {
        match self {
            Self::Create(CreateVolume { place, outpost_arn, .. }) => {
                Some(Site { place: place.clone(), outpost_arn: outpost_arn.clone() })
            }
            Self::Copy(_) => None,
        }
    }

    pub(super) fn size(&self) -> Gib {
        match self {
            Self::Create(request) => request.size,
            Self::Copy(request) => request.size,
        }
    }

    pub(super) async fn send(&self, ec2: &impl Ec2) -> Result<Volume, Ec2Error> {
        match self {
            Self::Create(request) => ec2.create_volume(request).await,
            Self::Copy(request) => ec2.copy_volume(request).await,
        }
    }
}
