//! The EC2 Query protocol, version 2016-11-15. The module decodes forms, encodes XML and verifies signatures. It also
//! handles a driver's requests to STS and SageMaker, each in its own dialect.

pub(crate) mod cluster_nodes;
pub(crate) mod decode;
pub(crate) mod dialect;
pub(crate) mod encode;
pub(crate) mod identity;
pub(crate) mod refusal;
pub(crate) mod sigv4;
pub(crate) mod xml;
