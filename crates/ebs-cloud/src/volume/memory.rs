//! What volume operations remember between attempts.

use std::time::Duration;

use ebs_ec2::{Tags, Volume, VolumeId};
use tokio::time::Instant;

use super::client_token::ClientTokens;
use super::iops_limit::Site;
use super::request::CreateRequest;
use crate::VolumeSpec;
use crate::timeouts::SETTLE;
use crate::traffic::Expiring;

const REQUEST_LIFETIME: Duration = Duration::from_secs(3600);
/// How long to skip a site without capacity. It is longer than 30 minutes, the provisioner's longest pause.
const NO_ROOM_LIFETIME: Duration = Duration::from_secs(35 * 60);
/// How long to keep the initialization status. An initialized volume stays initialized.
const INITIALIZATION_LIFETIME: Duration = Duration::from_secs(6 * 3600);
/// How long to remember that a token's volume is gone, if no client received the error.
const GONE_LIFETIME: Duration = Duration::from_secs(3600);

#[derive(Debug, Default)]
pub(crate) struct VolumeMemory {
    tokens: ClientTokens,
    requests: Expiring<String, (VolumeSpec, CreateRequest)>,
    without_room: Expiring<String, Vec<Site>>,
    gone: Expiring<String, Volume>,
    initialization: Expiring<VolumeId, Progress>,
    tags: Expiring<VolumeId, Tags>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Done,
    /// When to describe the volume's status next, and whether EC2 estimated this time.
    Until(Instant, bool),
}

impl VolumeMemory {
    pub(super) fn cached_request(&self, spec: &VolumeSpec) -> Option<CreateRequest> {
        self.requests.get(&spec.name).filter(|(kept, _)| kept == spec).map(|(_, request)| request)
    }

    pub(super) fn cache_request(&self, spec: &VolumeSpec, request: &CreateRequest) {
        self.requests.insert(spec.name.clone(), (spec.clone(), request.clone()), REQUEST_LIFETIME);
    }

    pub(super) fn forget_request(&self, name: &String) {
        self.requests.remove(name);
    }

    pub(super) fn sites_without_room(&self, name: &String) -> Vec<Site> {
        self.without_room.get(name).unwrap_or_default()
    }

    pub(super) fn record_without_room(&self, name: &String, site: Site) -> Vec<Site> {
        let mut sites = self.sites_without_room(name);
        if sites.contains(&site) {
            sites.clear();
        }
        sites.push(site);
        self.without_room.insert(name.clone(), sites.clone(), NO_ROOM_LIFETIME);
        sites
    }

    pub(super) fn token(&self, name: &str) -> String {
        self.tokens.current(name)
    }

    pub(super) fn rotate_token(&self, name: &str) {
        self.tokens.rotate(name);
    }

    /// Records that the volume that was created with the name's current token is provably gone.
    pub(super) fn record_gone(&self, name: &str, volume: &Volume) {
        self.gone.insert(self.token(name), volume.clone(), GONE_LIFETIME);
    }

    pub(super) fn gone(&self, token: &String) -> Option<Volume> {
        self.gone.get(token)
    }

    pub(super) fn initialization(&self, id: &VolumeId) -> Option<Progress> {
        self.initialization.get(id)
    }

    pub(super) fn record_initialization(&self, id: &VolumeId, progress: Progress) {
        self.initialization.insert(id.clone(), progress, INITIALIZATION_LIFETIME);
    }

    pub(super) fn record_tags(&self, id: &VolumeId, tags: &Tags) {
        self.tags.insert(id.clone(), tags.clone(), SETTLE);
    }

    pub(super) fn recent_tags(&self, id: &VolumeId) -> Tags {
        self.tags.get(id).unwrap_or_default()
    }
}
