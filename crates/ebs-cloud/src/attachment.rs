//! Attachments of volumes to instances.

mod attach;
mod cards;
mod detach;
mod device_name;
mod standing;

pub(crate) use cards::Cards;
pub(crate) use device_name::DeviceNames;
