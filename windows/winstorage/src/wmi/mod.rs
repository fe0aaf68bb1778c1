//! Translates steps to WMI queries and calls. This module decides which are sent, with which names and types, and its
//! tests run on every system. Only [`Wmi`] differs: COM on Windows, recordings in tests. All queries and calls are in
//! [`vocabulary`].

mod disk;
mod iscsi;
mod row;
mod smb;
mod system;
pub mod vocabulary;
mod volume;

use std::fmt;
use std::time::Duration;

use crate::host::{Answer, FsEntry, FsHost, HostError, ObjectPath, Space, SpaceHost};
use crate::types::{DiskNumber, Secret, VolumeGuid, WinPath};

pub use row::Row;
pub use vocabulary::{Call, Class, Namespace};

/// A value of a property or argument, of the type that the class declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Not set.
    Null,
    Bool(bool),
    /// `uint16`
    U16(u16),
    /// `uint32`
    U32(u32),
    /// `uint64`; COM carries it as text.
    U64(u64),
    Text(String),
    /// `string` that is not printed.
    Secret(Secret),
}

/// An error of WMI before a method could return a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WmiError {
    #[error("HRESULT {0:#010x}")]
    Com(u32),
    #[error("{0}")]
    Malformed(String),
}

/// The target of a method call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On<'a> {
    /// The class itself.
    Class,
    Object(&'a ObjectPath),
}

/// WMI, blocking, from any thread.
pub trait Wmi: Send + Sync {
    /// Returns the objects that a query finds.
    fn query(&self, namespace: Namespace, wql: &str) -> Result<Vec<Row>, WmiError>;

    /// Runs an `ASSOCIATORS OF` query, which returns the objects of `result` that `association` ties to `object`.
    fn associators(&self, namespace: Namespace, wql: &str) -> Result<Vec<Row>, WmiError> {
        self.query(namespace, wql)
    }

    /// Calls a method with named arguments. Missing arguments stay unset. The row has `ReturnValue` and the output of
    /// the method.
    fn exec(&self, on: On<'_>, call: Call, arguments: &[(&'static str, Value)]) -> Result<Row, WmiError>;
}

/// Calls outside of WMI: files, devices, drive letters, time.
pub trait Native: FsHost + SpaceHost {
    /// See [`crate::host::DiskHost::device_number`].
    fn device_number(&self, device: &str) -> Result<DiskNumber, HostError>;
    /// See [`crate::host::DiskHost::device_ids`].
    fn device_ids(&self, device: &str) -> Result<Vec<u8>, HostError>;
    /// See [`crate::host::DiskHost::read_disk`].
    fn read_disk(&self, disk: DiskNumber, offset: u64, length: usize) -> Result<Vec<u8>, HostError>;
    /// See [`crate::host::VolumeHost::volume_of_drive`].
    fn volume_of_drive(&self, letter: char) -> Result<VolumeGuid, HostError>;
    /// Returns the drive of `%SystemRoot%`.
    fn system_drive(&self) -> Result<char, HostError>;
    /// See [`crate::host::SystemHost::elapsed`].
    fn elapsed(&self) -> Duration;
    /// See [`crate::host::SystemHost::pause`].
    fn pause(&self, time: Duration);
}

/// A machine that combines WMI with native calls.
#[derive(Debug)]
pub struct WmiHost<W, N> {
    wmi: W,
    native: N,
}

impl<W: Wmi, N: Native> WmiHost<W, N> {
    /// Combines both.
    pub fn new(wmi: W, native: N) -> Self {
        Self { wmi, native }
    }

    fn query(&self, class: Class, wql: &str, object: &dyn fmt::Display) -> Result<Vec<Row>, HostError> {
        self.wmi.query(class.namespace(), wql).map_err(|error| refused(class.name(), object, error))
    }

    fn associated(&self, to: Class, wql: &str, object: &dyn fmt::Display) -> Result<Vec<Row>, HostError> {
        self.wmi.associators(to.namespace(), wql).map_err(|error| refused(to.name(), object, error))
    }

    /// Calls a method, and returns its output and its return code.
    fn exec(
        &self,
        on: On<'_>,
        call: Call,
        arguments: &[(&'static str, Value)],
        object: &dyn fmt::Display,
    ) -> Result<(u32, Row), HostError> {
        let out = self.wmi.exec(on, call, arguments).map_err(|error| refused(call.name(), object, error))?;
        let result = out.number("ReturnValue").map_err(|what| HostError::malformed(call.name(), object, what))?;
        let result = u32::try_from(result)
            .map_err(|_| HostError::malformed(call.name(), object, format!("ReturnValue {result}")))?;
        Ok((result, out))
    }

    /// Calls a method for which every return code except 0 is an error.
    fn call(
        &self,
        on: On<'_>,
        call: Call,
        arguments: &[(&'static str, Value)],
        object: &dyn fmt::Display,
    ) -> Result<Row, HostError> {
        match self.exec(on, call, arguments, object)? {
            (0, out) => Ok(out),
            (result, _) => Err(HostError::method(call.name(), object, result)),
        }
    }
}

fn refused(step: &'static str, object: &dyn fmt::Display, error: WmiError) -> HostError {
    let answer = match error {
        WmiError::Com(code) => Answer::Com(code),
        WmiError::Malformed(what) => Answer::Malformed(what),
    };
    HostError { step, object: object.to_string(), answer }
}

impl<W: Wmi, N: Native> FsHost for WmiHost<W, N> {
    fn open(&self, path: &WinPath) -> Result<Box<dyn FsEntry>, HostError> {
        self.native.open(path)
    }

    fn open_volume(&self, volume: &VolumeGuid) -> Result<Box<dyn FsEntry>, HostError> {
        self.native.open_volume(volume)
    }

    fn path_valid(&self, path: &str) -> Result<bool, HostError> {
        self.native.path_valid(path)
    }
}

impl<W: Wmi, N: Native> SpaceHost for WmiHost<W, N> {
    fn space(&self, path: &WinPath) -> Result<Space, HostError> {
        self.native.space(path)
    }
}

#[cfg(test)]
mod tests;
