use super::*;

#[derive(Debug, thiserror::Error)]
#[error("cannot attach vol-1")]
struct Outer(#[source] Middle);

#[derive(Debug, thiserror::Error)]
#[error("EC2 refused")]
struct Middle(#[source] Inner);

#[derive(Debug, thiserror::Error)]
#[error("AttachVolume: VolumeInUse (request id 1)")]
struct Inner;

impl IntoStatus for Outer {
    fn meaning(&self) -> Meaning {
        Meaning::FailedPrecondition
    }

    fn next_step(&self) -> Option<String> {
        Some("detach it first".to_owned())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("said twice: {0}")]
struct Repeats(#[source] Inner);

#[test]
fn status_message_has_each_cause_once_and_the_next_step() {
    let status = to_status(&Outer(Middle(Inner)));
    let whole = "cannot attach vol-1: EC2 refused: AttachVolume: VolumeInUse (request id 1); detach it first";
    assert_eq!(status.message(), whole);
    assert_eq!(chain(&Repeats(Inner)), "said twice: AttachVolume: VolumeInUse (request id 1)");
}

/// The status escapes control characters, because terminals act on them. A long message keeps its beginning and the
/// next step, because a header has a maximum size.
#[test]
fn status_message_is_escaped_and_has_a_maximum_length() {
    let odd = status(Meaning::InvalidArgument, "name \"a\u{1b}[31m\n\u{202e}\0\" is \\ Größe 日本");
    assert_eq!(odd.message(), "name \"a\\u{1b}[31m\\n\\u{202e}\\0\" is \\ Größe 日本");
    let long = status(Meaning::InvalidArgument, format!("begins {} call again", "x".repeat(100_000)));
    let count = long.message().chars().count();
    assert!(count < 2_100, "{count}");
    assert!(long.message().starts_with("begins") && long.message().ends_with("call again"), "{}", long.message());
    assert!(long.message().contains("98018 characters left out"), "{}", long.message());
}

#[test]
fn panicked_request_never_has_a_final_code() {
    let status = broken_off("internal error: x");
    assert_eq!(status.code(), Code::Aborted);
    assert!(status.message().contains("outcome is unknown"));
}

#[test]
fn status_code_is_parsed_from_the_response_headers() {
    let failed: http::Response<()> = Status::aborted("busy: 100 %").into_http();
    let answer = ResponseStatus::from_headers(failed.headers());
    assert_eq!(
        (answer.code, answer.failure.as_deref(), answer.definite_fault),
        ("Aborted", Some("busy: 100 %"), false)
    );
    let answer = ResponseStatus::from_headers(&http::HeaderMap::new());
    assert_eq!((answer.code, answer.failure), ("OK", None));
}
