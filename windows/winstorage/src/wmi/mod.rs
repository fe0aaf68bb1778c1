//! Translates steps to WMI queries and calls. This module decides which queries and calls are sent, and with which
//! names and types. Its tests run on every system, because only [`Wmi`] depends on the system: it is COM on Windows,
//! and recordings in tests. [`vocabulary`] contains all queries and calls.

mod disk;
mod iscsi;
mod row;
mod smb;
mod system;
pub mod vocabulary;
mod volume;

use std::fmt;

use crate::host::{Answer, HostError, NativeHost, ObjectPath};
use crate::types::Secret;

pub use row::Row;
pub use vocabulary::{Call, Class, Namespace};

/// A value of a property or argument. Its variant is the type that the class declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    Bool(bool),
    U16(u16),
    U32(u32),
    /// `uint64`, which COM transfers as text.
    U64(u64),
    Text(String),
    /// A `string` that is never printed.
    Secret(Secret),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WmiError {
    #[error("HRESULT {0:#010x}")]
    Com(u32),
    #[error("{0}")]
    Malformed(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On<'a> {
    Class,
    Object(&'a ObjectPath),
}

/// Access to WMI. Calls block, and any thread may make them.
pub trait Wmi: Send + Sync {
    fn query(&self, namespace: Namespace, wql: &str) -> Result<Vec<Row>, WmiError>;

    /// Calls a method with named arguments. Arguments that are missing stay unset. The returned row has `ReturnValue`
    /// and the output of the method.
    fn exec(&self, on: On<'_>, call: Call, arguments: &[(&'static str, Value)]) -> Result<Row, WmiError>;
}

#[derive(Debug)]
pub struct WmiHost<W, N> {
    wmi: W,
    native: N,
}

impl<W: Wmi, N: NativeHost> WmiHost<W, N> {
    pub fn new(wmi: W, native: N) -> Self {
        Self { wmi, native }
    }

    fn all<T>(
        &self,
        class: Class,
        wql: &str,
        object: &dyn fmt::Display,
        read: Read<'_, T>,
    ) -> Result<Vec<T>, HostError> {
        self.read(class, wql, object, &|rows| rows.iter().map(read).collect())
    }

    fn first<T>(
        &self,
        class: Class,
        wql: &str,
        object: &dyn fmt::Display,
        read: Read<'_, T>,
    ) -> Result<Option<T>, HostError> {
        self.read(class, wql, object, &|rows| rows.first().map(read).transpose())
    }

    fn read<T>(
        &self,
        class: Class,
        wql: &str,
        object: &dyn fmt::Display,
        read: &dyn Fn(&[Row]) -> Result<T, String>,
    ) -> Result<T, HostError> {
        let rows = self.wmi.query(class.namespace(), wql).map_err(|error| refused(class.name(), object, error))?;
        read(&rows).map_err(|what| HostError::malformed(class.name(), object, what))
    }

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

    /// Calls a method. Every return code except 0 is an error.
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

/// Converts a row. An error describes the invalid property.
type Read<'a, T> = &'a dyn Fn(&Row) -> Result<T, String>;

fn refused(step: &'static str, object: &dyn fmt::Display, error: WmiError) -> HostError {
    let answer = match error {
        WmiError::Com(code) => Answer::Com(code),
        WmiError::Malformed(what) => Answer::Malformed(what),
    };
    HostError { step, object: object.to_string(), answer }
}

#[cfg(test)]
mod tests;
