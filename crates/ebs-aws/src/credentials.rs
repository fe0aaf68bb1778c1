//! Finds out why a call had no credentials. Only an unavailable source can recover by itself.

use std::error::Error;

use aws_config::imds::client::error::{ImdsError, TokenError};
use aws_config::meta::ProviderChainError;
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_sts::operation::assume_role::AssumeRoleError;
use aws_sdk_sts::operation::assume_role_with_web_identity::AssumeRoleWithWebIdentityError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::{ConnectorError, SdkError};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use crate::causes;
use crate::classify::THROTTLES;

/// STS's code for an identity provider that it cannot reach.
const PROVIDER_AWAY: &str = "IDPCommunicationError";
/// The start of aws-config's message (it has no error type) for an error status from a container's credential source
/// (ECS, EKS Pod Identity). The status number follows.
const HTTP_STATUS: &str = "Non-success status from HTTP credential provider: ";
/// The start of the SDK's message (it has no error type) for a source that is too slow for the credentials cache.
const TIMED_OUT: &str = "identity resolver timed out";
/// A part of aws-config's message for a source that it was compiled without, such as IAM Identity Center.
const NOT_COMPILED_IN: &str = "requires following cargo feature";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoCredentials {
    Slow,
    /// The source is unreachable or reports an internal failure.
    Away,
    /// The profile names a source that this program does not support.
    NotSupported,
    /// No source is configured, or the source rejects the driver.
    Refused,
}

impl NoCredentials {
    /// Returns why a failed call had no credentials, or `None` if it had credentials or did not need them yet.
    pub(crate) fn behind(error: &(dyn Error + 'static)) -> Option<Self> {
        if any_cause(error, &|cause| cause.to_string().starts_with(TIMED_OUT)) {
            return Some(Self::Slow);
        }
        causes::find(error).map(Self::because)
    }

    fn because(error: &CredentialsError) -> Self {
        if matches!(error, CredentialsError::ProviderTimedOut(_)) {
            Self::Slow
        } else if any_cause(error, &is_away) {
            Self::Away
        } else if any_cause(error, &|cause| cause.to_string().contains(NOT_COMPILED_IN)) {
            Self::NotSupported
        } else {
            Self::Refused
        }
    }

    pub(crate) const fn message(self) -> &'static str {
        match self {
            Self::Slow => {
                "load AWS credentials: the source of the credentials did not answer in time, so nothing was sent"
            }
            Self::Away => {
                "load AWS credentials: STS, pod identity agent or instance metadata is unavailable, so nothing was sent; \
                 check that service, or use another source"
            }
            Self::NotSupported => {
                "load AWS credentials: the profile's credential source (such as SSO) is unsupported, so nothing was \
                 sent; use a role or a profile with keys"
            }
            Self::Refused => {
                "load AWS credentials (environment, web or pod identity, profile, instance role): no source returned \
                 usable credentials, so nothing was sent"
            }
        }
    }
}

/// Returns true if the predicate holds for the error or one of its causes. Searches every source of a chain.
fn any_cause(error: &(dyn Error + 'static), holds: &dyn Fn(&(dyn Error + 'static)) -> bool) -> bool {
    let mut next = Some(error);
    while let Some(cause) = next {
        let sources = cause.downcast_ref::<ProviderChainError<CredentialsError>>();
        let of_a_source =
            sources.is_some_and(|chain| chain.attempts().iter().any(|attempt| any_cause(attempt.error(), holds)));
        if of_a_source || holds(cause) {
            return true;
        }
        next = cause.source();
    }
    false
}

/// Returns true if this error shows an outage of the source: no connection, no answer, or an internal failure.
fn is_away(cause: &(dyn Error + 'static)) -> bool {
    let by_type = (cause.downcast_ref().map(|e| is_outage(e, sts_is_away::<AssumeRoleWithWebIdentityError>)))
        .or_else(|| Some(is_outage(cause.downcast_ref()?, sts_is_away::<AssumeRoleError>)))
        .or_else(|| Some(is_outage(cause.downcast_ref()?, |_: &CredentialsError| false)))
        .or_else(|| Some(is_outage(cause.downcast_ref()?, |_: &TokenError| false)));
    if let Some(is_outage) = by_type {
        return is_outage;
    }
    match cause.downcast_ref() {
        Some(ImdsError::ErrorResponse(answer)) => is_outage_status(answer.response().status().as_u16()),
        Some(ImdsError::IoError(_)) => true,
        _ => cause.is::<ConnectorError>() || container_is_away(cause),
    }
}

fn is_outage<E>(error: &SdkError<E, HttpResponse>, is_away: impl Fn(&E) -> bool) -> bool {
    match error {
        SdkError::TimeoutError(_) | SdkError::DispatchFailure(_) | SdkError::ResponseError(_) => true,
        SdkError::ServiceError(answer) => is_outage_status(answer.raw().status().as_u16()) || is_away(answer.err()),
        _ => false,
    }
}

fn is_outage_status(status: u16) -> bool {
    status >= 500 || status == 429
}

/// Returns true if STS reports an internal failure. An answer without a code does not come from STS.
fn sts_is_away<E: ProvideErrorMetadata>(error: &E) -> bool {
    error.code().is_none_or(|code| code == PROVIDER_AWAY || THROTTLES.contains(&code))
}

fn container_is_away(cause: &(dyn Error + 'static)) -> bool {
    let text = cause.to_string();
    let Some(status) = text.strip_prefix(HTTP_STATUS) else { return false };
    let digits: String = status.chars().filter(char::is_ascii_digit).collect();
    digits.parse().is_ok_and(is_outage_status)
}
