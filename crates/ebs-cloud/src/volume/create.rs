//! CreateVolume, idempotent by client token (`decisions.md` D-12).

use std::time::Duration;

use ebs_ec2::{Ec2, Ec2Error, ErrorClass, Limit, Volume, VolumeState};
use ebs_types::Waiters;
use tokio::time::Instant;

use super::order::Order;
use super::{adopt, plan};
use crate::call::mutate;
use crate::client_token::ClientTokens;
use crate::error::refused;
use crate::expiring::Expiring;
use crate::iops_limit::Site;
use crate::op::Op;
use crate::recent::Mark;
use crate::wait::{Change, FirstLook, Verdict};
use crate::{Cloud, CloudError, Ensured, Object, Source, VolumeSpec, bounds};

/// For how long a retry sends what was sent first.
const ORDER_LIFETIME: Duration = Duration::from_secs(3600);
/// For how long a place without room is passed over.
const NO_ROOM_LIFETIME: Duration = Duration::from_secs(300);
/// For how long a volume of an attempt that did not end well is looked for before a final error is given.
const UNPROVEN_LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Tokens whose volume is gone are given up at most so often in one attempt.
const MOST_ROLLS: u32 = 2;

/// What is remembered about volumes by name, from attempt to attempt.
#[derive(Debug, Default)]
pub(crate) struct VolumeMemory {
    tokens: ClientTokens,
    orders: Expiring<String, (VolumeSpec, Order)>,
    without_room: Expiring<String, Vec<Site>>,
    unproven: Expiring<String, ()>,
}

impl VolumeMemory {
    pub(super) fn order_of(&self, spec: &VolumeSpec) -> Option<Order> {
        self.orders.get(&spec.name).filter(|(kept, _)| kept == spec).map(|(_, order)| order)
    }

    pub(super) fn keep_order(&self, spec: &VolumeSpec, order: &Order) {
        self.orders.insert(spec.name.clone(), (spec.clone(), order.clone()), ORDER_LIFETIME);
    }

    pub(super) fn sites_without_room(&self, name: &String) -> Vec<Site> {
        self.without_room.get(name).unwrap_or_default()
    }

    fn note_without_room(&self, name: &String, site: Site) -> Vec<Site> {
        let mut sites = self.sites_without_room(name);
        if sites.contains(&site) {
            sites.clear();
        }
        sites.push(site);
        self.without_room.insert(name.clone(), sites.clone(), NO_ROOM_LIFETIME);
        sites
    }
}

/// What became of an order.
enum Placed {
    /// EC2 took it.
    Accepted(Volume),
    /// The volume is there already.
    Found(Volume),
    /// It is proven that there is no volume of it: order again.
    Again,
}

/// What a look for the name found.
enum Look {
    Compatible(Box<Volume>),
    Different(String),
    Absent,
}

/// What became of a volume that EC2 took the order for.
enum Fate {
    Usable(Volume),
    Gone,
    Broken(Volume),
}

impl<E: Ec2> Cloud<E> {
    /// Sees to it that the volume exists and is usable (`available` or `in-use`).
    ///
    /// # Errors
    /// [`CloudError`]; final ones only when it is proven that no volume was left behind.
    pub async fn create_volume(&self, spec: &VolumeSpec, waiters: &Waiters) -> Result<Ensured<Volume>, CloudError> {
        let op = Op::start(format!("create volume {:?}", spec.name), bounds::CREATE, waiters);
        let mut rolls = 0;
        loop {
            let order = match self.order(&op, spec).await {
                Ok(order) => order,
                Err(error) => return self.made_before(&op, spec, error).await.map(Ensured::Existing),
            };
            let (volume, made) = match self.place_order(&op, spec, &order).await? {
                Placed::Accepted(volume) => (volume, true),
                Placed::Found(volume) => (volume, false),
                Placed::Again if Instant::now() < op.deadline => continue,
                Placed::Again => return Err(out_of_time(&op)),
            };
            match self.fate(&op, &volume).await? {
                Fate::Usable(volume) => {
                    self.volumes.unproven.remove(&spec.name);
                    return Ok(if made { Ensured::Created(volume) } else { Ensured::Existing(volume) });
                }
                Fate::Broken(broken) => {
                    self.give_up_token(spec);
                    return Err(is_broken(&op, spec, &broken));
                }
                Fate::Gone => {
                    self.give_up_token(spec);
                    rolls += 1;
                    if spec.kms_key_id.is_some() || spec.encrypted || rolls > MOST_ROLLS {
                        return Err(has_vanished(&op, spec, &volume));
                    }
                    tracing::info!(volume = %volume.id, name = %spec.name, "the volume of this token is gone, taking the next token");
                }
            }
        }
    }

    /// What its source is like now does not tell whether the volume was made before: the source may have gone or
    /// grown since. Without a source the request alone decides, and nothing can have been made of it.
    async fn made_before(&self, op: &Op<'_>, spec: &VolumeSpec, error: CloudError) -> Result<Volume, CloudError> {
        let is_final = match &error {
            CloudError::SourceNotFound { .. }
            | CloudError::OutOfRange { .. }
            | CloudError::InvalidArgument { .. }
            | CloudError::InsufficientCapacity { .. } => spec.source != Source::Blank,
            _ => false,
        };
        if !is_final {
            return Err(error);
        }
        match self.look_by_name(op, spec, true).await? {
            Look::Compatible(found) => match self.fate(op, &found).await? {
                Fate::Usable(volume) => Ok(volume),
                Fate::Gone | Fate::Broken(_) => Err(error),
            },
            Look::Different(_) | Look::Absent => Err(error),
        }
    }

    /// No live volume of the present token exists: the next attempt takes the next one.
    fn give_up_token(&self, spec: &VolumeSpec) {
        self.volumes.tokens.roll(&spec.name);
        self.volumes.unproven.remove(&spec.name);
    }

    async fn place_order(&self, op: &Op<'_>, spec: &VolumeSpec, order: &Order) -> Result<Placed, CloudError> {
        let request = order.with_token(self.volumes.tokens.current(&spec.name));
        let answer = mutate(op, || self.send(&request)).await?;
        let mark = Mark::VolumeName(spec.name.clone());
        let error = match answer {
            Ok(volume) => {
                self.recent.note(mark);
                self.volumes.unproven.insert(spec.name.clone(), (), UNPROVEN_LIFETIME);
                return Ok(Placed::Accepted(volume));
            }
            Err(e) => e,
        };
        match error.class {
            ErrorClass::Ambiguous => {
                self.recent.note(mark);
                self.volumes.unproven.insert(spec.name.clone(), (), UNPROVEN_LIFETIME);
            }
            ErrorClass::IdempotentMismatch => self.recent.note(mark),
            ErrorClass::LimitExceeded(Limit::Volumes | Limit::Iops) => {}
            ErrorClass::Throttled | ErrorClass::NotSent => return Err(refused(&op.what, error)),
            _ if self.volumes.unproven.get(&spec.name).is_some() || self.recent.is_young() => {}
            _ => return Err(self.order_refused(op, spec, order, error).await),
        }
        self.after_unclear_answer(op, spec, order, error).await
    }

    /// Looks for the volume by its name and decides on what it finds.
    async fn after_unclear_answer(
        &self,
        op: &Op<'_>,
        spec: &VolumeSpec,
        order: &Order,
        error: Ec2Error,
    ) -> Result<Placed, CloudError> {
        tracing::info!(name = %spec.name, %error, "looking for the volume by its name");
        let patient = error.class != ErrorClass::IdempotentMismatch || self.recent.is_young();
        match self.look_by_name(op, spec, patient).await? {
            Look::Compatible(volume) => Ok(Placed::Found(*volume)),
            Look::Different(message) => Err(CloudError::AlreadyExists { message, cause: Some(Box::new(error)) }),
            Look::Absent => {
                self.volumes.unproven.remove(&spec.name);
                match error.class {
                    ErrorClass::Ambiguous => Ok(Placed::Again),
                    ErrorClass::IdempotentMismatch => {
                        self.volumes.tokens.roll(&spec.name);
                        Ok(Placed::Again)
                    }
                    _ => Err(self.order_refused(op, spec, order, error).await),
                }
            }
        }
    }

    /// Looks until the volume is seen or its absence is proven. A volume that differs ends the look at once, or, when
    /// `patient`, only after the time in which ours might still appear beside it.
    async fn look_by_name(&self, op: &Op<'_>, spec: &VolumeSpec, patient: bool) -> Result<Look, CloudError> {
        let settled_at = self.recent.settled_for_all_at(&Mark::VolumeName(spec.name.clone()));
        self.watch
            .volumes(op, &spec.name, |found, sent| {
                let settled = sent >= settled_at;
                match self.compare(spec, found) {
                    Look::Compatible(volume) => Verdict::Done(Look::Compatible(volume)),
                    Look::Different(how) if settled || !patient => Verdict::Done(Look::Different(how)),
                    Look::Absent if settled => Verdict::Done(Look::Absent),
                    Look::Different(_) | Look::Absent => Verdict::Waiting,
                }
            })
            .await
    }

    fn compare(&self, spec: &VolumeSpec, found: Vec<Volume>) -> Look {
        // Looks may still show what we have deleted.
        let deleted = |v: &Volume| self.recent.is_marked(&Mark::Deletion(v.id.clone()));
        let is_live = |v: &Volume| v.csi_name() == Some(&spec.name) && adopt::lives(v) && !deleted(v);
        let live: Vec<Volume> = found.into_iter().filter(is_live).collect();
        let difference = |v: &Volume| adopt::differences(&self.config.driver, spec, v).join("; ");
        let mut same: Vec<&Volume> = live.iter().filter(|v| difference(v).is_empty()).collect();
        match (same.pop(), same.is_empty()) {
            (Some(volume), true) => Look::Compatible(Box::new(volume.clone())),
            (Some(_), false) => {
                let ids: Vec<_> = live.iter().map(|v| v.id.as_str()).collect();
                Look::Different(format!("several volumes carry the name {:?}: {}", spec.name, ids.join(", ")))
            }
            (None, _) if live.is_empty() => Look::Absent,
            (None, _) => {
                let all: Vec<_> = live.iter().map(|v| format!("{}: {}", v.id, difference(v))).collect();
                Look::Different(format!("a volume named {:?} exists and differs: {}", spec.name, all.join(", ")))
            }
        }
    }

    /// Waits until the volume is usable or will never be. EC2's first answer is no proof that it still exists: the
    /// token may be an old one.
    async fn fate(&self, op: &Op<'_>, volume: &Volume) -> Result<Fate, CloudError> {
        if self.recent.is_marked(&Mark::Deletion(volume.id.clone())) {
            // The answer to an old token: looks may still show what we have deleted.
            return Ok(Fate::Gone);
        }
        let visible_by = Instant::now() + bounds::SETTLE;
        let first =
            if volume.state == VolumeState::Creating { FirstLook::After(Change::Creating) } else { FirstLook::Now };
        self.watch
            .volume(op, first, &volume.id, |seen, sent| {
                let Some(v) = seen else {
                    return if sent < visible_by { Verdict::Waiting } else { Verdict::Done(Fate::Gone) };
                };
                match v.state {
                    VolumeState::Available | VolumeState::InUse => Verdict::Done(Fate::Usable(v)),
                    VolumeState::Deleting | VolumeState::Deleted => Verdict::Done(Fate::Gone),
                    VolumeState::Error => Verdict::Done(Fate::Broken(v)),
                    VolumeState::Creating | VolumeState::Other(_) => Verdict::Waiting,
                }
            })
            .await
    }

    /// The error for an order that EC2 refused for good; nothing was left behind.
    async fn order_refused(&self, op: &Op<'_>, spec: &VolumeSpec, order: &Order, error: Ec2Error) -> CloudError {
        self.volumes.orders.remove(&spec.name);
        match (error.class, &spec.source) {
            (ErrorClass::InsufficientCapacity, _) => self.no_room(op, spec, order, error),
            (ErrorClass::SnapshotNotFound | ErrorClass::MalformedId, Source::Snapshot(id)) => {
                let object = Object::Snapshot(id.clone());
                CloudError::SourceNotFound { object, cause: Some(Box::new(error)) }
            }
            (ErrorClass::VolumeNotFound | ErrorClass::MalformedId, Source::Volume(id)) => {
                let object = Object::Volume(id.clone());
                CloudError::SourceNotFound { object, cause: Some(Box::new(error)) }
            }
            (ErrorClass::InvalidParameter | ErrorClass::Unsupported, Source::Snapshot(id)) => {
                // EC2 does not tell a size that is too small from any other bad parameter: look which it is.
                let needs = self.size_of(op, id).await.ok();
                let asked = crate::CapacityRequest { required: Some(order.size()), ..spec.capacity.clone() };
                match plan::size(&asked, &spec.volume_type, needs.as_ref()) {
                    Err(CloudError::OutOfRange { message, .. }) => {
                        CloudError::OutOfRange { message, cause: Some(Box::new(error)) }
                    }
                    _ => refused(&op.what, error),
                }
            }
            _ => refused(&op.what, error),
        }
    }

    fn no_room(&self, op: &Op<'_>, spec: &VolumeSpec, order: &Order, error: Ec2Error) -> CloudError {
        let tried = match order.site() {
            None => "the zone of the source".to_owned(),
            Some(site) => {
                let tried = self.volumes.note_without_room(&spec.name, site);
                let names: Vec<_> = tried.iter().map(ToString::to_string).collect();
                names.join(", ")
            }
        };
        let message = format!("{}: no room for such a volume in {tried}", op.what);
        CloudError::InsufficientCapacity { message, cause: Some(Box::new(error)) }
    }
}

fn key_hint(spec: &VolumeSpec) -> String {
    match &spec.kms_key_id {
        Some(key) => format!(
            ": the usual reason is that the KMS key {key} does not exist, is disabled, or may not be used by the driver"
        ),
        None if spec.encrypted => {
            ": the usual reason is a default KMS key that may not be used by the driver".to_owned()
        }
        None => String::new(),
    }
}

/// The message says what to do about encryption only where encryption was asked for.
fn has_vanished(op: &Op<'_>, spec: &VolumeSpec, volume: &Volume) -> CloudError {
    let message =
        format!("{}: EC2 accepted it as {}, and then the volume vanished{}", op.what, volume.id, key_hint(spec));
    if key_hint(spec).is_empty() {
        CloudError::Internal { message, cause: None }
    } else {
        CloudError::FailedPrecondition { message, cause: None }
    }
}

fn is_broken(op: &Op<'_>, spec: &VolumeSpec, volume: &Volume) -> CloudError {
    let hint = key_hint(spec);
    let id = &volume.id;
    tracing::warn!(volume = %id, name = %spec.name, "EC2 leaves a volume in state error behind: it is to be deleted by hand");
    let message =
        format!("{}: {id} went into state error{hint}; the next attempt makes another one, delete {id}", op.what);
    CloudError::FailedPrecondition { message, cause: None }
}

fn out_of_time(op: &Op<'_>) -> CloudError {
    let message = format!("{}: EC2 gave no clear answer in time, no volume was left behind; try again", op.what);
    CloudError::Unavailable { message, cause: None }
}
