//! The EC2 Query protocol, version 2016-11-15: forms in, XML out, signatures checked.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod params;
pub(crate) mod refusal;
pub(crate) mod sigv4;
pub(crate) mod xml;
