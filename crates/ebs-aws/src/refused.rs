//! Parses EC2's error responses. The error code is parsed once, when the response arrives.

use std::error::Error;

use aws_sdk_sts::operation::get_caller_identity::GetCallerIdentityError;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context;
use aws_smithy_runtime_api::client::orchestrator::OrchestratorError;
use aws_smithy_types::error::metadata::{ErrorMetadata, ProvideErrorMetadata};

/// An error answer. It has no code if it was unreadable.
#[derive(Debug, thiserror::Error)]
#[error("{}", .meta.message().unwrap_or("no message"))]
pub(crate) struct Refused {
    meta: ErrorMetadata,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Refused {
    pub(crate) fn new(code: Option<String>, message: Option<String>) -> Self {
        let mut meta = ErrorMetadata::builder();
        if let Some(code) = code {
            meta = meta.code(code);
        }
        if let Some(message) = message {
            meta = meta.message(message);
        }
        Self { meta: meta.build(), source: None }
    }

    pub(crate) fn unreadable(message: &str, source: impl Into<BoxError>) -> Self {
        Self { meta: ErrorMetadata::builder().message(message).build(), source: Some(source.into()) }
    }
}

impl ProvideErrorMetadata for Refused {
    fn meta(&self) -> &ErrorMetadata {
        &self.meta
    }
}

/// Returns the error code, if the attempt ended with an error answer from EC2, SageMaker or (through its SDK) STS.
pub(crate) fn code_of(error: &OrchestratorError<context::Error>) -> Option<&str> {
    let answer = error.as_operation_error()?;
    match answer.downcast_ref::<Refused>() {
        Some(refused) => refused.code(),
        None => answer.downcast_ref::<GetCallerIdentityError>()?.code(),
    }
}
