//! The EC2 Query protocol, version 2016-11-15: forms in, XML out, signatures checked. And what a driver asks of STS
//! and SageMaker, each in its own dialect.

pub(crate) mod cluster_nodes;
pub(crate) mod decode;
pub(crate) mod dialect;
pub(crate) mod encode;
pub(crate) mod identity;
pub(crate) mod refusal;
pub(crate) mod sigv4;
pub(crate) mod xml;
