//! The recorded results of the bench, from which the plots are drawn: one JSON file for each plot.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bench::volumes::Point;

/// The name of this driver in the records.
pub(crate) const OUR_NAME: &str = "this driver";

/// The conditions of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Conditions {
    /// `2026-11-27`
    pub(crate) date: String,
    /// The commit of the measured driver, or its version.
    pub(crate) commit: String,
    pub(crate) cores: usize,
    /// Anything else that a reader must know.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) note: String,
}

impl Conditions {
    /// Returns the conditions as a caption of a plot.
    pub(crate) fn caption(&self) -> String {
        let note = if self.note.is_empty() { String::new() } else { format!(", {}", self.note) };
        format!("{}, {} cores, {}{note}", self.commit, self.cores, self.date)
    }
}

/// Seconds in addition to the time that EC2 and an ideal client need.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Latencies {
    pub(crate) median: f64,
    pub(crate) p99: f64,
}

/// A driver under the load of the steady case. Processor time is in milliseconds, memory in MiB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Driver {
    pub(crate) name: String,
    pub(crate) conditions: Conditions,
    pub(crate) lives: u32,
    pub(crate) rate: f64,
    pub(crate) rpcs: BTreeMap<String, Latencies>,
    pub(crate) cpu_per_life: f64,
    pub(crate) peak_memory: f64,
    pub(crate) mutating_per_life: f64,
    pub(crate) spare_per_life: f64,
    pub(crate) describes_per_life: f64,
}

/// The drivers that were measured under the load of the steady case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Latency {
    pub(crate) drivers: Vec<Driver>,
}

impl Latency {
    pub(crate) fn read(dir: &Path) -> anyhow::Result<Self> {
        Ok(read(dir)?.unwrap_or_default())
    }

    /// Returns the record with these drivers in the place of earlier ones of the same name.
    pub(crate) fn with(self, measured: Vec<Driver>) -> Self {
        let mut drivers = self.drivers;
        drivers.retain(|driver| measured.iter().all(|new| new.name != driver.name));
        drivers.extend(measured);
        drivers.sort_by_key(|driver| driver.name != OUR_NAME);
        Self { drivers }
    }
}

/// The case `load` at one rate of lifecycles per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadPoint {
    pub(crate) rate: f64,
    pub(crate) lives: u32,
    pub(crate) mutating_per_life: f64,
    pub(crate) spare_per_life: f64,
    pub(crate) describes_per_life: f64,
    pub(crate) cpu_per_life: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    pub(crate) conditions: Conditions,
    pub(crate) points: Vec<LoadPoint>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Volumes {
    pub(crate) conditions: Conditions,
    pub(crate) points: Vec<Point>,
}

/// A record, and the name of its file and of its plot.
pub(crate) trait Record: Serialize + DeserializeOwned {
    const NAME: &str;
}

impl Record for Latency {
    const NAME: &str = "latency";
}

impl Record for Load {
    const NAME: &str = "load";
}

impl Record for Volumes {
    const NAME: &str = "volumes";
}

/// Returns the record, or `None` if it does not exist.
pub(crate) fn read<R: Record>(dir: &Path) -> anyhow::Result<Option<R>> {
    let path = dir.join(R::NAME).with_extension("json");
    let text = match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("read {}", path.display()))?,
    };
    let record = serde_json::from_slice(&text);
    record.map(Some).with_context(|| format!("parse {}: not a record of the bench; measure again", path.display()))
}

/// Writes the record with all figures rounded to three decimal places.
pub(crate) fn write<R: Record>(dir: &Path, record: &R) -> anyhow::Result<()> {
    let mut value = serde_json::to_value(record).context("convert a record to JSON")?;
    round(&mut value);
    let path = dir.join(R::NAME).with_extension("json");
    fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    fs::write(&path, format!("{value:#}\n")).with_context(|| format!("write {}", path.display()))
}

fn round(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Number(number) if number.is_f64() => {
            let rounded = number.as_f64().map(|n| (n * 1_000.0).round() / 1_000.0);
            *value = serde_json::json!(rounded);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(round),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(round),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(name: &str, median: f64) -> Driver {
        Driver {
            name: name.to_owned(),
            conditions: Conditions::default(),
            lives: 400,
            rate: 4.0,
            rpcs: [("CreateVolume".to_owned(), Latencies { median, p99: 1.0 })].into(),
            cpu_per_life: 8.2,
            peak_memory: 18.3,
            mutating_per_life: 4.0,
            spare_per_life: 0.0,
            describes_per_life: 0.9,
        }
    }

    #[test]
    fn written_record_is_read_with_rounded_figures() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read::<Latency>(dir.path()).unwrap(), None);
        write(dir.path(), &Latency { drivers: vec![driver("a", 0.123_456)] }).unwrap();
        assert_eq!(read(dir.path()).unwrap(), Some(Latency { drivers: vec![driver("a", 0.123)] }));
    }

    #[test]
    fn unknown_field_in_a_record_is_an_error_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("latency.json"), r#"{"drivers": [], "driver": 1}"#).unwrap();
        let error = format!("{:#}", read::<Latency>(dir.path()).unwrap_err());
        assert!(error.contains("latency.json") && error.contains("unknown field `driver`"), "{error}");
    }

    #[test]
    fn new_run_replaces_only_the_drivers_that_it_measured() {
        let record = Latency { drivers: vec![driver("reference", 0.7), driver(OUR_NAME, 0.2)] };
        let record = record.with(vec![driver(OUR_NAME, 0.1)]);
        assert_eq!(record.drivers, [driver(OUR_NAME, 0.1), driver("reference", 0.7)]);
    }
}
