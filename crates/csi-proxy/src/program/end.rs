//! How a service's process ends, from how its work has ended.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How the process ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The stop was asked for: STOPPED is reported without an error, so that nothing starts the service again. The text is what was left behind.
    Stopped(Option<String>),
    /// The service failed by itself: the process ends without reporting STOPPED. The service control manager takes that for a crash and starts the
    /// service again, also where the flag for other failures (`sc failureflag`) is not set or not in effect yet.
    Failed(String),
}

/// Does the work of a service. `is_asked` is true once its stop was asked for.
pub(super) fn live(is_asked: impl Fn() -> bool, work: impl FnOnce() -> Result<(), String>) -> End {
    // A panic must not leave a process behind that runs and serves nothing.
    let ended = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(text_of(panic.as_ref())));
    match (ended, is_asked()) {
        (Ok(()), true) => End::Stopped(None),
        (Err(text), true) => End::Stopped(Some(text)),
        (Ok(()), false) => End::Failed("the service has ended by itself".to_owned()),
        (Err(text), false) => End::Failed(text),
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("without a text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service that fails by itself, in an error or a panic, ends its process without reporting a stop, so that it is started again.
    #[test]
    fn service_that_fails_by_itself_is_started_again() {
        let failed = live(|| false, || Err("the pipe exists".to_owned()));
        assert_eq!(failed, End::Failed("the pipe exists".to_owned()));
        let panicked = live(|| false, || panic!("a bug of {}", "tests"));
        assert_eq!(panicked, End::Failed("panic: a bug of tests".to_owned()));
        assert!(matches!(live(|| false, || Ok(())), End::Failed(_)));
    }

    /// A stop that was asked for is a stop, whatever was left behind: an installer would otherwise find the service started again.
    #[test]
    fn stop_that_was_asked_for_is_no_failure() {
        assert_eq!(live(|| true, || Ok(())), End::Stopped(None));
        let left = "2 calls still ran 20 s after the stop, and were left".to_owned();
        assert_eq!(live(|| true, || Err(left.clone())), End::Stopped(Some(left)));
        assert!(matches!(live(|| true, || panic!("late")), End::Stopped(Some(_))));
    }
}
