//! `/debug/pprof/`: what Go programs have there and this one can tell. A profiler of Go's is not among it.

use std::fmt::Write;

use http::StatusCode;

/// Where Go programs have their profiles.
pub(crate) const ROOT: &str = "/debug/pprof/";

/// The answer for a path below [`ROOT`].
pub(crate) fn page(path: &str) -> (StatusCode, String) {
    match path.strip_prefix(ROOT) {
        Some("") => (StatusCode::OK, overview()),
        Some("cmdline") => (StatusCode::OK, command_line()),
        Some("allocs" | "block" | "goroutine" | "heap" | "mutex" | "profile" | "symbol" | "threadcreate" | "trace") => {
            let text =
                "this program is not written in Go and keeps no such profile; see /debug/pprof/ for what it tells";
            (StatusCode::NOT_IMPLEMENTED, text.to_owned())
        }
        _ => (StatusCode::NOT_FOUND, "404 page not found".to_owned()),
    }
}

/// As Go gives it: arguments with zero bytes between them.
fn command_line() -> String {
    let arguments: Vec<String> = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    arguments.join("\0")
}

fn overview() -> String {
    let mut text = format!(
        "{}\n\ncmdline: the arguments of this process\n\nThreads and memory, as the system tells them:\n",
        crate::version::text()
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let told = ["Threads:", "VmRSS:", "VmHWM:", "RssAnon:", "RssFile:", "voluntary_ctxt_switches:"];
    for line in status.lines().filter(|line| told.iter().any(|name| line.starts_with(name))) {
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "{line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `--enable-pprof` there is a page under `/debug/pprof/` that says what this program can tell; a profile that it does not
    /// have is refused by name.
    #[test]
    fn what_this_program_can_tell_is_told_and_a_profile_of_go_is_refused() {
        let (status, text) = page("/debug/pprof/");
        assert_eq!(status, StatusCode::OK);
        assert!(text.contains("csi-node-driver-registrar"), "{text}");
        assert!(!cfg!(target_os = "linux") || text.contains("VmRSS:"), "{text}");
        assert_eq!(page("/debug/pprof/cmdline").0, StatusCode::OK);
        for profile in ["heap", "profile", "goroutine", "trace"] {
            assert_eq!(page(&format!("/debug/pprof/{profile}")).0, StatusCode::NOT_IMPLEMENTED);
        }
        for nothing in ["/debug/pprof/no", "/debug/pprof", "/debug"] {
            assert_eq!(page(nothing).0, StatusCode::NOT_FOUND);
        }
    }
}
