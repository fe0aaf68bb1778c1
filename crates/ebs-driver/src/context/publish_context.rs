use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use ebs_ec2::{DriverName, Gib, VolumeId};

use super::ContextError;

type Context = HashMap<String, String>;

const BLANK: &str = "none";
const SNAPSHOT: &str = "snapshot";
const CLONE: &str = "clone";
const TRUE: &str = "true";

/// What a volume was created from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeOrigin {
    Blank,
    Snapshot,
    Clone,
    /// A source that this version does not know, but a later version of the controller may.
    Other(String),
}

/// The controller's description of an attachment. An older controller and the reference driver send only the device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublishContext {
    /// The device name in EC2's block-device mapping, or `None` when the controller did not know the name.
    pub device: Option<PathBuf>,
    /// The volume behind a node-local handle, or `None` when the handle itself names the volume.
    pub local_volume: Option<VolumeId>,
    pub origin: Option<VolumeOrigin>,
    /// The size of the volume when it was attached. Volumes never shrink, so it is at least as large now.
    pub size: Option<Gib>,
    /// The time at which EC2 attached the volume.
    pub attach_time: Option<SystemTime>,
}

impl VolumeOrigin {
    fn parse(text: &str) -> Self {
        match text {
            BLANK => Self::Blank,
            SNAPSHOT => Self::Snapshot,
            CLONE => Self::Clone,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for VolumeOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blank => BLANK,
            Self::Snapshot => SNAPSHOT,
            Self::Clone => CLONE,
            Self::Other(text) => text,
        })
    }
}

impl PublishContext {
    /// Converts the context into a map with the keys of `driver`. An unknown device becomes an empty value.
    pub fn to_map(&self, driver: &DriverName) -> Context {
        let device = self.device.as_ref().map_or_else(String::new, |path| path.display().to_string());
        let mut context = Context::from([(DriverName::DEVICE_PATH_KEY.to_owned(), device)]);
        let mut put = |key: String, value: Option<String>| {
            if let Some(value) = value {
                context.insert(key, value);
            }
        };
        put(DriverName::LOCAL_VOLUME_KEY.to_owned(), self.local_volume.as_ref().map(ToString::to_string));
        put(driver.source_key(), self.origin.as_ref().map(ToString::to_string));
        put(driver.size_key(), self.size.map(|size| size.0.to_string()));
        put(driver.attach_time_key(), self.attach_time.map(|time| humantime::format_rfc3339(time).to_string()));
        context
    }

    /// Parses the map of a request.
    pub fn parse(context: &Context, driver: &DriverName) -> Result<Self, ContextError> {
        let device = Self::device(context).ok_or(ContextError::Missing { key: DriverName::DEVICE_PATH_KEY })?;
        let size = read(context, driver.size_key(), "a number of GiB", |text| text.parse().map(Gib).ok())?;
        let time = read(context, driver.attach_time_key(), "a time such as 2030-12-31T23:59:59Z", |text| {
            humantime::parse_rfc3339(text).ok()
        })?;
        let local_volume = Self::local_volume(context)?;
        let origin = context.get(&driver.source_key()).map(|text| VolumeOrigin::parse(text));
        Ok(Self { device, local_volume, origin, size, attach_time: time })
    }

    /// Parses the device name. `None` means that the key is absent, `Some(None)` that the name is empty.
    pub fn device(context: &Context) -> Option<Option<PathBuf>> {
        context.get(DriverName::DEVICE_PATH_KEY).map(|path| (!path.is_empty()).then(|| PathBuf::from(path)))
    }

    /// Parses only the volume behind a node-local handle.
    pub fn local_volume(context: &Context) -> Result<Option<VolumeId>, ContextError> {
        let text = context.get(DriverName::LOCAL_VOLUME_KEY).filter(|text| !text.is_empty());
        text.map(|text| VolumeId::parse(text)).transpose().map_err(|_| {
            let (key, value) = (DriverName::LOCAL_VOLUME_KEY.to_owned(), text.cloned().unwrap_or_default());
            ContextError::PublishValue { key, value, wanted: "a volume id" }
        })
    }

    /// Records in a context that ControllerPublishVolume requested a read-only volume.
    pub fn set_read_only(context: &mut Context, driver: &DriverName) {
        context.insert(driver.read_only_key(), TRUE.to_owned());
    }

    /// Returns true when the node must enforce read-only access, which EBS attachments do not support.
    pub fn is_read_only(context: &Context, driver: &DriverName) -> bool {
        context.get(&driver.read_only_key()).is_some_and(|value| value == TRUE)
    }

    /// Returns what the volume was created from, or `None` when it was blank or its source is unknown.
    pub fn restored_from(&self) -> Option<&VolumeOrigin> {
        self.origin.as_ref().filter(|origin| **origin != VolumeOrigin::Blank)
    }
}

fn read<T>(
    context: &Context,
    key: String,
    wanted: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, ContextError> {
    let Some(text) = context.get(&key) else { return Ok(None) };
    match parse(text) {
        Some(value) => Ok(Some(value)),
        None => Err(ContextError::PublishValue { key, value: text.clone(), wanted }),
    }
}
