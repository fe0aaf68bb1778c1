//! The limits of each volume type. Source: the Amazon EBS user guide, "Amazon EBS volume types".

use ebs_ec2::VolumeType;

use crate::api::{Fault, SimProperties};

use super::faults::{invalid_combination, invalid_value};

struct Ranges {
    iops: Option<IopsRange>,
    /// MiB/s.
    throughput: Option<(u32, u32)>,
    multi_attach: bool,
}

struct IopsRange {
    min: u32,
    max: u32,
    per_gib: u32,
    /// EC2's default. `None`: the client must specify a value.
    default: Option<u32>,
}

/// gp3 needs this number of provisioned IOPS for each MiB/s.
const GP3_IOPS_PER_MIBS: u32 = 4;

fn ranges(volume_type: &VolumeType) -> Ranges {
    let provisioned = |max, per_gib| Some(IopsRange { min: 100, max, per_gib, default: None });
    match volume_type {
        VolumeType::Gp3 => Ranges {
            iops: Some(IopsRange { min: 3000, max: 80_000, per_gib: 500, default: Some(3000) }),
            throughput: Some((125, 2000)),
            multi_attach: false,
        },
        VolumeType::Io1 => Ranges { iops: provisioned(64_000, 50), throughput: None, multi_attach: true },
        VolumeType::Io2 => Ranges { iops: provisioned(256_000, 1000), throughput: None, multi_attach: true },
        VolumeType::Gp2 | VolumeType::St1 | VolumeType::Sc1 | VolumeType::Standard | VolumeType::Other(_) => {
            Ranges { iops: None, throughput: None, multi_attach: false }
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct ShapeRequest {
    pub(super) size_gib: i64,
    pub(super) volume_type: VolumeType,
    pub(super) iops: Option<i64>,
    pub(super) throughput: Option<i64>,
    pub(super) multi_attach: bool,
    /// Whether the zone rejects an excess of any io2 limit with one common error text.
    pub(super) as_one_sentence: bool,
}

/// Returns the volume type with that name. EC2 accepts only lower case.
pub(super) fn known_type(name: &str) -> Result<VolumeType, Fault> {
    VolumeType::known().iter().find(|t| t.as_str() == name).cloned().ok_or_else(|| {
        Fault::new("UnknownVolumeType", format!("Unsupported volume type '{name}' for volume creation."))
    })
}

impl ShapeRequest {
    pub(super) fn fulfil(self) -> Result<SimProperties, Fault> {
        let ranges = ranges(&self.volume_type);
        // EC2 reports unsupported parameters before invalid values.
        for (what, given, has) in [
            ("parameter iops", self.iops, ranges.iops.is_some()),
            ("throughput parameter", self.throughput, ranges.throughput.is_some()),
        ] {
            if given.is_some() && !has {
                return Err(invalid_combination(format!(
                    "The {what} is not supported for {} volumes.",
                    self.volume_type
                )));
            }
        }
        let size_gib = self.size()?;
        let iops = match ranges.iops {
            Some(range) => Some(self.iops_within(&range, size_gib)?),
            None => gp2_baseline(&self.volume_type, size_gib),
        };
        let throughput = match ranges.throughput {
            Some(range) => Some(self.throughput_within(range, iops.unwrap_or(0))?),
            None => None,
        };
        if self.multi_attach && !ranges.multi_attach {
            return Err(invalid_combination(format!(
                "Multi-Attach is not supported for {} volumes: it needs io1 or io2.",
                self.volume_type
            )));
        }
        Ok(SimProperties { size_gib, volume_type: self.volume_type, iops, throughput, multi_attach: self.multi_attach })
    }

    /// Returns the error for a value that exceeds a maximum of the volume type.
    fn too_much(&self, message: String) -> Fault {
        if self.as_one_sentence && self.volume_type == VolumeType::Io2 {
            return invalid_combination(
                "io2 volumes configured with greater than 64 TiB or 256K IOPS or 1000:1 IOPS:GB ratio are not supported",
            );
        }
        invalid_value(message)
    }

    fn size(&self) -> Result<u32, Fault> {
        let (min, max) = self.volume_type.size_range().unwrap_or_default();
        u32::try_from(self.size_gib).ok().filter(|size| (min.0..=max.0).contains(size)).ok_or_else(|| {
            let size = self.size_gib;
            if size < i64::from(min.0) {
                return invalid_value(format!("Volume of {size}GiB is too small; minimum is {}GiB.", min.0));
            }
            self.too_much(format!("Volume of {size}GiB is too large; maximum is {}GiB.", max.0))
        })
    }

    fn iops_within(&self, range: &IopsRange, size_gib: u32) -> Result<u32, Fault> {
        let Some(asked) = self.iops else {
            return range.default.ok_or_else(|| {
                invalid_combination(format!("The parameter iops must be specified for {} volumes.", self.volume_type))
            });
        };
        if asked < i64::from(range.min) {
            return Err(invalid_value(format!("Volume iops of {asked} is too low; minimum is {}.", range.min)));
        }
        if asked > i64::from(range.max) {
            return Err(self.too_much(format!("Volume iops of {asked} is too high; maximum is {}.", range.max)));
        }
        let iops = u32::try_from(asked).unwrap_or(range.max);
        // The first 3000 IOPS of gp3 do not depend on the size. io1 and io2 limit all IOPS by the size.
        let free = range.default.unwrap_or(0);
        if iops > free && u64::from(iops) > u64::from(range.per_gib) * u64::from(size_gib) {
            let ratio = f64::from(iops) / f64::from(size_gib);
            return Err(self.too_much(format!(
                "Iops to volume size ratio of {ratio:.6} is too high; maximum is {}",
                range.per_gib
            )));
        }
        Ok(iops)
    }

    fn throughput_within(&self, (min, max): (u32, u32), iops: u32) -> Result<u32, Fault> {
        let Some(asked) = self.throughput else { return Ok(min) };
        let Some(throughput) = u32::try_from(asked).ok().filter(|t| (min..=max).contains(t)) else {
            return Err(invalid_value(format!(
                "Throughput of {asked} MiB/s is invalid: a {} volume has {min} to {max} MiB/s.",
                self.volume_type
            )));
        };
        if throughput > min && throughput * GP3_IOPS_PER_MIBS > iops {
            let (ratio, most) = (f64::from(throughput) / f64::from(iops), 1.0 / f64::from(GP3_IOPS_PER_MIBS));
            return Err(invalid_value(format!(
                "Throughput (MiBps) to iops ratio of {ratio:.6} is too high; maximum is {most:.6} MiBps per iops."
            )));
        }
        Ok(throughput)
    }
}

/// Returns the IOPS of gp2: 3 for each GiB, at least 100 and at most 16,000.
fn gp2_baseline(volume_type: &VolumeType, size_gib: u32) -> Option<u32> {
    (*volume_type == VolumeType::Gp2).then(|| (size_gib * 3).clamp(100, 16_000))
}
