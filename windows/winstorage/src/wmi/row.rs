//! WMI objects, with their properties by name.

use std::collections::BTreeMap;

use super::Value;
use crate::host::ObjectPath;

/// An object that a query returned, or the output of a method. As in WMI, names are not case-sensitive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    path: Option<String>,
    values: BTreeMap<String, Value>,
}

impl Row {
    /// Creates an object. `path` is its `__PATH`, or `None` for the output of a method.
    pub fn new(path: Option<String>) -> Self {
        Self { path, values: BTreeMap::new() }
    }

    pub fn set(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_ascii_lowercase(), value);
    }

    pub fn path(&self) -> Result<ObjectPath, String> {
        self.path.clone().map(ObjectPath).ok_or_else(|| "an object without a path".to_owned())
    }

    /// Returns a number of any width, which may be stored as a string.
    pub fn number(&self, name: &str) -> Result<u64, String> {
        let number = match self.value(name) {
            Value::U16(number) => Some(u64::from(*number)),
            Value::U32(number) => Some(u64::from(*number)),
            Value::U64(number) => Some(*number),
            Value::Bool(flag) => Some(u64::from(*flag)),
            Value::Text(text) => text.parse().ok(),
            Value::Null | Value::Secret(_) => None,
        };
        number.ok_or_else(|| self.odd(name, "number"))
    }

    pub fn number32(&self, name: &str) -> Result<u32, String> {
        u32::try_from(self.number(name)?).map_err(|_| self.odd(name, "32-bit number"))
    }

    pub fn flag(&self, name: &str) -> Result<bool, String> {
        match self.value(name) {
            Value::Bool(flag) => Ok(*flag),
            Value::Null => Ok(false),
            _ => Err(self.odd(name, "boolean")),
        }
    }

    pub fn text(&self, name: &str) -> Result<&str, String> {
        match self.value(name) {
            Value::Text(text) => Ok(text),
            Value::Null => Ok(""),
            _ => Err(self.odd(name, "string")),
        }
    }

    /// Returns a drive letter from a `char16`, which is a UTF-16 number or a string. 0 means that there is no letter.
    pub fn drive_letter(&self, name: &str) -> Result<Option<char>, String> {
        let letter = match self.value(name) {
            Value::Null => None,
            Value::Text(text) => text.chars().next().filter(|letter| *letter != '\0'),
            _ => match self.number32(name)? {
                0 => None,
                unit => Some(char::from_u32(unit).ok_or_else(|| self.odd(name, "drive letter"))?),
            },
        };
        match letter {
            Some(letter) if !letter.is_ascii_alphabetic() => Err(self.odd(name, "drive letter")),
            letter => Ok(letter),
        }
    }

    fn value(&self, name: &str) -> &Value {
        self.values.get(&name.to_ascii_lowercase()).unwrap_or(&Value::Null)
    }

    fn odd(&self, name: &str, wanted: &str) -> String {
        format!("{name} is {:?}, not a {wanted}", self.value(name))
    }
}
