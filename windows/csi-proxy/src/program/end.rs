//! Decides how the process of a service ends.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A client has requested the service's stop. The process reports STOPPED without an error, so that Windows does
    /// not restart the service. The text describes what the process leaves behind.
    Stopped(Option<String>),
    /// The service has failed. The process ends without reporting STOPPED. The service control manager treats that as a
    /// crash and restarts the service, even if the flag for other failures (`sc failureflag`) is not set or not in
    /// effect yet.
    Failed(String),
}

/// Runs a service. `is_asked` returns true after the service control manager has requested its stop.
pub(super) fn live(is_asked: impl Fn() -> bool, work: impl FnOnce() -> Result<(), String>) -> End {
    // Catch a panic, so that the process does not keep running without serving.
    let ended = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(text_of(panic.as_ref())));
    match (ended, is_asked()) {
        (Ok(()), true) => End::Stopped(None),
        (Err(text), true) => End::Stopped(Some(text)),
        (Ok(()), false) => End::Failed("the service stopped unexpectedly".to_owned()),
        (Err(text), false) => End::Failed(text),
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("without a message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unrequested_end_of_the_service_is_a_failure() {
        let failed = live(|| false, || Err("the pipe exists".to_owned()));
        assert_eq!(failed, End::Failed("the pipe exists".to_owned()));
        let panicked = live(|| false, || panic!("a bug of {}", "tests"));
        assert_eq!(panicked, End::Failed("panic: a bug of tests".to_owned()));
        assert!(matches!(live(|| false, || Ok(())), End::Failed(_)));
    }

    #[test]
    fn requested_stop_is_not_a_failure() {
        assert_eq!(live(|| true, || Ok(())), End::Stopped(None));
        let left = "2 calls were still running 20 s after the stop request and were abandoned".to_owned();
        assert_eq!(live(|| true, || Err(left.clone())), End::Stopped(Some(left)));
        assert!(matches!(live(|| true, || panic!("late")), End::Stopped(Some(_))));
    }
}
