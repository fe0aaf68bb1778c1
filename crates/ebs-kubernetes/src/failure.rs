//! What a failed call to the API server means.

use std::fmt;

use kube::Error;

/// A failed call, by what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What it means.
    pub kind: FailureKind,
    /// The server's words, or those of the connection.
    pub message: String,
}

/// What can be done about a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// 401 or 403: rights are missing; only a change of RBAC, of an admission policy or of the token helps.
    Denied,
    /// There is no such object.
    NotFound,
    /// The object is not as the request assumes (a failed `test` of a patch, a resource version that has passed): read it
    /// again.
    Stale,
    /// What a watch or a paged list goes on from is too old: begin anew.
    Expired,
    /// Anything else: the server cannot be reached, is busy, hangs or has an error. The outcome of a write is not known.
    Unavailable,
}

impl Failure {
    /// What an error of the client means.
    pub fn of(error: &Error) -> Self {
        let Error::Api(status) = error else { return Self { kind: FailureKind::Unavailable, message: chain(error) } };
        let kind = match status.code {
            401 | 403 => FailureKind::Denied,
            404 => FailureKind::NotFound,
            400 | 409 | 422 => FailureKind::Stale,
            410 => FailureKind::Expired,
            _ => FailureKind::Unavailable,
        };
        Self { kind, message: format!("{} ({})", status.message, status.code) }
    }

    /// Rights are missing.
    pub fn is_denied(&self) -> bool {
        self.kind == FailureKind::Denied
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::of(&error)
    }
}

/// The error and its causes. The client's errors repeat their causes: what has been said is not said again.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn api(code: u16) -> FailureKind {
        let status = Status::failure("no", "Because").with_code(code);
        Failure::of(&Error::Api(status.boxed())).kind
    }

    #[test]
    fn a_refusal_means_what_its_code_says_and_everything_else_is_not_known() {
        assert_eq!([401, 403].map(api), [FailureKind::Denied; 2]);
        assert_eq!(api(404), FailureKind::NotFound);
        assert_eq!([400, 409, 422].map(api), [FailureKind::Stale; 3]);
        assert_eq!(api(410), FailureKind::Expired);
        assert_eq!([429, 500, 503, 504].map(api), [FailureKind::Unavailable; 4]);
        let lost = Error::Service("connection refused".into());
        assert_eq!(Failure::of(&lost).kind, FailureKind::Unavailable);
    }

    #[test]
    fn a_failure_says_each_cause_once() {
        let cause = std::io::Error::other("reset");
        let failure = Failure::of(&Error::ReadEvents(cause));
        assert_eq!(failure.to_string().matches("reset").count(), 1, "{failure}");
    }
}
