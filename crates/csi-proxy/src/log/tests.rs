use super::*;

fn settings() -> LogSettings {
    LogSettings {
        verbosity: 2,
        to_stderr: false,
        also_to_stderr: false,
        stderr_from: Severity::Fatal,
        file: None,
        directory: None,
        file_bytes: 0,
        directory_in_header: false,
        skip_line_headers: false,
        skip_file_headers: false,
    }
}

fn lines(settings: LogSettings, write: impl FnOnce(&Log)) -> Vec<String> {
    let written = Arc::default();
    write(&Log::to_memory(settings, Arc::clone(&written)));
    let bytes = written.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

/// A line has klog's header: severity, date, time, process, file and line; verbose ones are written up to `--v`.
///
/// Rule: windows.md P-61
#[test]
fn a_line_has_klogs_header_and_verbose_ones_are_written_up_to_v() {
    let written = lines(settings(), |log| {
        log.info("Starting");
        log.verbose(2, "two");
        log.verbose(3, "three");
        log.error("late");
    });
    assert_eq!(written.len(), 3, "{written:?}");
    let (header, text) = written[0].split_once("] ").unwrap();
    assert_eq!(text, "Starting");
    let parts: Vec<&str> = header.split_whitespace().collect();
    assert!(parts[0].starts_with('I') && parts[0].len() == 5, "{header}");
    assert_eq!((parts[1].len(), parts[2]), (15, std::process::id().to_string().as_str()), "{header}");
    assert!(parts[3].starts_with("tests.rs:"), "{header}");
    assert!(written[2].starts_with('E'));
}

/// What a client writes begins no line of its own.
///
/// Rule: see `a_line_has_klogs_header_and_verbose_ones_are_written_up_to_v`
#[test]
fn what_a_client_writes_begins_no_line_of_its_own() {
    let written = lines(settings(), |log| log.info("path \r\nE0101 00:00:00.000000 forged"));
    assert_eq!(written.len(), 1, "{written:?}");
}

/// klog's flags for headers count.
///
/// Rule: windows.md 1.6
#[test]
fn the_flags_for_headers_count() {
    assert_eq!(lines(LogSettings { skip_line_headers: true, ..settings() }, |log| log.info("bare")), ["bare"]);
    let with_directory = LogSettings { directory_in_header: true, ..settings() };
    assert!(lines(with_directory, |log| log.info("x"))[0].contains(" log/tests.rs:"));
}

/// A log file that would grow over its bound is begun anew, and the old one stays beside it.
///
/// Rule: windows.md 1.6 (ours)
#[test]
fn a_log_file_that_would_grow_over_its_bound_is_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("proxy.log");
    let bounded = LogSettings { file: Some(file.clone()), file_bytes: 400, ..settings() };
    let log = Log::open(bounded).unwrap();
    for number in 0..20 {
        log.info(format_args!("line {number}"));
    }
    let (new, old) = (std::fs::read_to_string(&file).unwrap(), std::fs::read_to_string(before_of(&file)).unwrap());
    assert!(new.len() <= 400 && old.len() <= 400, "{} {}", new.len(), old.len());
    assert!(new.starts_with("Log file created at: ") && new.contains("line 19"), "{new}");
}

fn before_of(file: &std::path::Path) -> PathBuf {
    format!("{}.1", file.display()).into()
}

#[test]
fn severities_are_numbers_or_names() {
    assert_eq!(Severity::parse("2"), Some(Severity::Error));
    assert_eq!(Severity::parse("WARNING"), Some(Severity::Warning));
    assert_eq!(Severity::parse("4"), None);
}
