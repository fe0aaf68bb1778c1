//! Classifies failed calls to the API server.

use kube::Error;
use kube::runtime::watcher;

/// A failed call, classified by how the caller can react.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    /// The message of the server or of the connection.
    pub message: String,
}

/// How the caller can react to a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// 401 or 403: the process lacks rights. Only a change of RBAC, an admission policy or the token helps.
    Denied,
    /// The object does not exist.
    NotFound,
    /// The object has changed since it was read (a failed `test` in a patch, an old resource version): read it again.
    Stale,
    /// The position in a watch or paged list is too old: start again.
    Expired,
    /// Any other failure, such as an unreachable or busy server. It is unknown whether a write succeeded.
    Unavailable,
}

impl Failure {
    /// Classifies an error of the client.
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

    pub(crate) fn of_watch(error: &watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => Self::of(error),
            watcher::Error::WatchError(status) => Self::of(&Error::Api(status.clone())),
            watcher::Error::NoResourceVersion => Self::of(&Error::Service(error.to_string().into())),
        }
    }

    /// Returns true if the process lacks rights.
    pub fn is_denied(&self) -> bool {
        self.kind == FailureKind::Denied
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::of(&error)
    }
}

/// Returns the messages of the error and its causes, each only once: the client's errors repeat their causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |&cause| cause.source()).fold(error.to_string(), |text, cause| {
        let words = cause.to_string();
        if text.contains(&words) { text } else { format!("{text}: {words}") }
    })
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
    fn failure_kind_is_set_by_http_status_code() {
        assert_eq!([401, 403].map(api), [FailureKind::Denied; 2]);
        assert_eq!(api(404), FailureKind::NotFound);
        assert_eq!([400, 409, 422].map(api), [FailureKind::Stale; 3]);
        assert_eq!(api(410), FailureKind::Expired);
        assert_eq!([429, 500, 503, 504].map(api), [FailureKind::Unavailable; 4]);
        let lost = Error::Service("connection refused".into());
        assert_eq!(Failure::of(&lost).kind, FailureKind::Unavailable);
    }

    #[test]
    fn failure_message_has_each_cause_once() {
        let cause = std::io::Error::other("reset");
        let failure = Failure::of(&Error::ReadEvents(cause));
        assert_eq!(failure.to_string().matches("reset").count(), 1, "{failure}");
    }
}
