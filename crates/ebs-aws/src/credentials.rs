//! Why no credentials came: a source that is away comes back by itself, one that refuses or is not set up does not.

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

/// STS could not ask the identity provider.
const PROVIDER_AWAY: &str = "IDPCommunicationError";
/// How aws-config begins its message on an answer of a container's source of credentials (ECS, EKS Pod Identity) that is no success.
/// It has no type for it. The number of the status follows.
const HTTP_STATUS: &str = "Non-success status from HTTP credential provider: ";
/// How the SDK's cache of credentials begins its message on a source that takes too long. It has no type for it either.
const TIMED_OUT: &str = "identity resolver timed out";
/// How aws-config names a source that it was compiled without, among them IAM Identity Center.
const NOT_COMPILED_IN: &str = "requires following cargo feature";

/// Why there are no credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoCredentials {
    /// The source did not answer in time.
    Slow,
    /// The source cannot be reached, or fails itself.
    Away,
    /// The profile names a source that this program does not have.
    NotSupported,
    /// No source is set up, or the source refuses.
    Refused,
}

impl NoCredentials {
    /// Why a call that failed like this had none; `None` when it had some, or never came to need them.
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

    /// The same in words, with what to do next.
    pub(crate) const fn message(self) -> &'static str {
        match self {
            Self::Slow => "the source of AWS credentials did not answer in time; nothing was sent",
            Self::Away => {
                "the source of AWS credentials (STS, pod identity agent or instance metadata) could not be reached or failed; \
                 nothing was sent; check that it runs and that the network lets the driver reach it, or set up another source"
            }
            Self::NotSupported => {
                "the AWS profile needs a source of credentials that this driver does not have, such as SSO (IAM Identity Center); \
                 nothing was sent; use a role of the service account or instance, or a profile with keys"
            }
            Self::Refused => {
                "no AWS credentials could be loaded (environment, web identity, pod identity, profile, instance role); \
                 nothing was sent"
            }
        }
    }
}

/// True when this holds of the error or of one of its causes, those of each source in a chain of sources included.
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

/// True for an error that shows by itself that the source is away: no connection, no answer, or an answer that it cannot work now.
fn is_away(cause: &(dyn Error + 'static)) -> bool {
    if let Some(error) = cause.downcast_ref() {
        return is_outage(error, sts_is_away::<AssumeRoleWithWebIdentityError>);
    }
    if let Some(error) = cause.downcast_ref() {
        return is_outage(error, sts_is_away::<AssumeRoleError>);
    }
    if let Some(error) = cause.downcast_ref() {
        return is_outage(error, |_: &CredentialsError| false);
    }
    if let Some(error) = cause.downcast_ref() {
        return is_outage(error, |_: &TokenError| false);
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

/// The server failed, or wants fewer requests.
fn is_outage_status(status: u16) -> bool {
    status >= 500 || status == 429
}

/// An answer without a code is none of STS's.
fn sts_is_away<E: ProvideErrorMetadata>(error: &E) -> bool {
    error.code().is_none_or(|code| code == PROVIDER_AWAY || THROTTLES.contains(&code))
}

fn container_is_away(cause: &(dyn Error + 'static)) -> bool {
    let text = cause.to_string();
    let Some(status) = text.strip_prefix(HTTP_STATUS) else { return false };
    let digits: String = status.chars().filter(char::is_ascii_digit).collect();
    digits.parse().is_ok_and(is_outage_status)
}
