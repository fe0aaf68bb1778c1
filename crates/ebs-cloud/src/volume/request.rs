//! The CreateVolume or CopyVolumes request. The driver keeps it, so that every retry sends the same request.

use ebs_ec2::{CopyVolume, CreateVolume, Ec2, Ec2Error, Gib, Iops, Volume, VolumeType};

use super::iops_limit::Site;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CreateRequest {
    Create(CreateVolume),
    /// A clone, and the site of its source if EC2 shows it.
    Copy(CopyVolume, Option<Site>),
}

impl CreateRequest {
    pub(super) fn with_token(self, client_token: String) -> Self {
        match self {
            Self::Create(request) => Self::Create(CreateVolume { client_token, ..request }),
            Self::Copy(request, site) => Self::Copy(CopyVolume { client_token, ..request }, site),
        }
    }

    /// Returns the site of the new volume, or `None` for a clone, which EC2 creates at the site of its source.
    pub(super) fn site(&self) -> Option<Site> {
        let Self::Create(CreateVolume { place, outpost_arn, .. }) = self else { return None };
        Some(Site { place: place.clone(), outpost_arn: outpost_arn.clone() })
    }

    pub(super) fn iops(&self) -> Option<(Iops, &VolumeType, Site)> {
        match self {
            Self::Create(request) => Some((request.iops?, &request.volume_type, self.site()?)),
            Self::Copy(request, site) => Some((request.iops?, &request.volume_type, site.clone()?)),
        }
    }

    pub(super) fn size(&self) -> Gib {
        match self {
            Self::Create(request) => request.size,
            Self::Copy(request, _) => request.size,
        }
    }

    pub(super) async fn send(&self, ec2: &impl Ec2) -> Result<Volume, Ec2Error> {
        match self {
            Self::Create(request) => ec2.create_volume(request).await,
            Self::Copy(request, _) => ec2.copy_volume(request).await,
        }
    }
}
