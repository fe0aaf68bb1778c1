//! The service that a request addresses. AWS has a separate host for each service; here they share one port.

use http::HeaderMap;

use crate::api::Fault;
use crate::wire::{cluster_nodes, identity, refusal};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// EC2's Query protocol, version 2016-11-15.
    Ec2,
    /// STS, version 2011-06-15; only the action GetCallerIdentity.
    Sts,
    /// SageMaker's JSON; only the two actions that attach volumes to cluster nodes and detach them.
    SageMaker,
}

impl Dialect {
    /// Detects the dialect. SageMaker requests have the action in a header. STS requests have the STS version among
    /// their parameters.
    pub(crate) fn of(headers: &HeaderMap, form: &str) -> Self {
        if headers.contains_key(cluster_nodes::TARGET) {
            return Self::SageMaker;
        }
        let version = format!("Version={}", identity::VERSION);
        if form.split('&').any(|pair| pair == version) { Self::Sts } else { Self::Ec2 }
    }

    pub(crate) fn signing_name(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Sts => "sts",
            Self::SageMaker => "sagemaker",
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Ec2 => "text/xml;charset=UTF-8",
            Self::Sts => "text/xml",
            Self::SageMaker => cluster_nodes::CONTENT_TYPE,
        }
    }

    pub(crate) fn refusal(self, fault: &Fault, request_id: &str) -> String {
        match self {
            Self::Ec2 => refusal::body(fault, request_id),
            Self::Sts => identity::refusal(fault, request_id),
            Self::SageMaker => cluster_nodes::refusal(fault),
        }
    }
}
