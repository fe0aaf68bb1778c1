//! `/debug/pprof/`: the pages of a Go program that this program can also provide. Go's profiles are not available.

use std::fmt::Write;

use http::StatusCode;

pub(crate) const ROOT: &str = "/debug/pprof/";

pub(crate) fn page(path: &str) -> (StatusCode, String) {
    match path.strip_prefix(ROOT) {
        Some("") => (StatusCode::OK, overview()),
        Some("cmdline") => (StatusCode::OK, command_line()),
        Some("allocs" | "block" | "goroutine" | "heap" | "mutex" | "profile" | "symbol" | "threadcreate" | "trace") => {
            let text =
                "profile unsupported: this program is not written in Go; see /debug/pprof/ for the available pages";
            (StatusCode::NOT_IMPLEMENTED, text.to_owned())
        }
        _ => (StatusCode::NOT_FOUND, "404 page not found".to_owned()),
    }
}

/// Returns the command line as Go does, with arguments separated by zero bytes.
fn command_line() -> String {
    let arguments: Vec<String> = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    arguments.join("\0")
}

fn overview() -> String {
    let mut text = format!(
        "{}\n\ncmdline: the arguments of this process\n\nThreads and memory, as the system reports them:\n",
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
