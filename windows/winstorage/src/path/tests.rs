use proptest::prelude::*;

use super::*;

const KUBELET: &str = r"C:\var\lib\kubelet";

fn rules(validation: Validation) -> PathRules {
    let directories = [KUBELET, r"D:\csi\work"].map(|path| WinPath::normalise(path).unwrap());
    PathRules::new(directories.to_vec(), validation)
}

fn refusal(text: &str) -> String {
    rules(Validation::Strict).check(text).unwrap_err().to_string()
}

#[test]
fn first_failed_check_rejects_a_path_with_the_reference_text() {
    let long = format!(r"{KUBELET}\{}", "x".repeat(300));
    assert_eq!(refusal(&long), "path length 319 exceeds maximum characters: 260");
    for rooted in [r"\\srv\x", r"\foo", r"\\?\C:\var\lib\kubelet\x", r"\\.\pipe\x"] {
        assert_eq!(refusal(rooted), format!("invalid character \\ at beginning of path: {rooted}"));
    }
    let below =
        ["pv1:foo", "pv1/foo", "a*b", "a?b", "a|b", r"..\x", "a..b", "a\"b"].map(|rest| format!(r"{KUBELET}\{rest}"));
    for odd in below.iter().map(String::as_str).chain(["C:", "C:x", "C:/var/lib/kubelet"]) {
        assert_eq!(refusal(odd), format!("path contains invalid characters: {odd}"));
    }
    for relative in [r"pv1\foo", "", "x"] {
        assert_eq!(refusal(relative), format!("not an absolute Windows path: {relative}"));
    }
    let outside = r"path: C:\foo\bar is not within the working directories: [C:\var\lib\kubelet D:\csi\work]";
    assert_eq!(refusal(r"C:\foo\bar"), outside);
}

#[test]
fn path_length_is_counted_in_utf16_units() {
    let fitting = format!(r"{KUBELET}\{}", "ä".repeat(260 - KUBELET.len() - 1));
    assert!(fitting.len() > 260);
    assert!(rules(Validation::Strict).check(&fitting).is_ok());
    assert!(rules(Validation::Strict).check(&format!("{fitting}x")).is_err());
}

#[test]
fn path_containment_is_checked_by_component_not_by_prefix() {
    let rules = rules(Validation::Strict);
    for inside in [r"C:\var\lib\kubelet\pods\pv1", r"c:\VAR\lib\kubelet\x\", KUBELET, r"d:\CSI\\work\\x"] {
        assert!(rules.check(inside).is_ok(), "{inside}");
    }
    for outside in [r"C:\var\lib\kubelet2\x", r"C:\var\lib\kubelet.old", r"C:\var\lib", r"D:\csi", r"E:\csi\work\x"] {
        let refused = matches!(rules.check(outside), Err(PathError::Outside { .. }));
        assert!(refused, "{outside}");
    }
    let allowed = rules.check(r"c:\VAR\lib\kubelet\\x\y\").unwrap();
    assert_eq!(allowed.root.to_string(), KUBELET);
    assert_eq!(allowed.below.iter().map(Component::as_str).collect::<Vec<_>>(), ["x", "y"]);
}

#[test]
fn letters_that_fold_to_ascii_do_not_match_directories() {
    // The Kelvin sign folds to k, and the long s folds to s.
    for odd in ["C:\\var\\lib\\\u{212A}ubelet\\x", "D:\\c\u{17F}i\\work\\x"] {
        assert!(rules(Validation::Strict).check(odd).is_err(), "{odd}");
    }
}

#[test]
fn names_that_windows_changes_and_device_names_are_rejected() {
    let odd =
        "NUL|nul|Con|PRN|aux.txt|NUL .x|nul.|COM0|com9.log|LPT1|lpt²|COM¹.x|CONIN$|conout$.txt|a.|b |x<y|x>y|tab\there";
    for name in odd.split('|').chain(["nul\u{0}", "\u{1f}"]) {
        for path in [format!(r"{KUBELET}\{name}"), format!(r"{KUBELET}\{name}\x")] {
            let refused = matches!(rules(Validation::Strict).check(&path), Err(PathError::Component { .. }));
            assert!(refused, "{path:?}");
        }
    }
    for name in ["NULL", "COM", "COM10", "xCON", "LPTx", ".nul", "a b", "a.b", "console"] {
        assert!(rules(Validation::Strict).check(&format!(r"{KUBELET}\{name}\\y")).is_ok(), "{name}");
    }
}

#[test]
fn legacy_validation_is_identical_to_the_reference() {
    let rules = rules(Validation::Legacy);
    for allowed in [r"C:\var\lib\kubelet2\x", r"C:\var\lib\kubelet\NUL", r"C:\var\lib\kubelet\a."] {
        assert!(rules.check(allowed).is_ok(), "{allowed}");
    }
    assert!(rules.check(r"C:\foo").is_err());
    assert!(rules.check_unlike_reference(r"C:\foo").is_ok());
    assert!(rules.check_unlike_reference("foo").is_err());
}

/// A second implementation that shares no code with the checks. It resolves the path byte by byte, as Windows does.
/// Returns `None` if the result is not a file or directory below one of the working directories.
fn judge(text: &str) -> Option<()> {
    let bytes = text.as_bytes();
    if bytes.len() < 3 || !bytes[0].is_ascii_alphabetic() || &bytes[1..3] != b":\\" || text.encode_utf16().count() > 260
    {
        return None;
    }
    let mut stack: Vec<String> = vec![(bytes[0] as char).to_uppercase().to_string()];
    for part in text[3..].split(['\\', '/']) {
        match part {
            "" | "." => {}
            ".." => {
                stack.pop()?;
            }
            part => {
                // Reject streams, wildcards and control characters.
                if part.bytes().any(|byte| byte < 0x20 || b"<>:\"|?*".contains(&byte)) {
                    return None;
                }
                let seen = part.trim_end_matches([' ', '.']);
                if seen != part {
                    return None;
                }
                let stem: String =
                    seen.chars().take_while(|char| *char != '.').collect::<String>().trim_end().to_uppercase();
                let is_port = stem.chars().count() == 4
                    && (stem.starts_with("COM") || stem.starts_with("LPT"))
                    && stem.chars().last().is_some_and(|char| "0123456789¹²³".contains(char));
                if is_port || ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"].contains(&stem.as_str()) {
                    return None;
                }
                stack.push(part.to_ascii_lowercase());
            }
        }
    }
    let is_below =
        |place: &[&str]| stack.len() >= place.len() && place.iter().zip(&stack).all(|(one, other)| one == other);
    (is_below(&["C", "var", "lib", "kubelet"]) || is_below(&["D", "csi", "work"])).then_some(())
}

/// Parts of paths that have misled such checks before.
const PIECES: &str = concat!(
    r"C:\var\lib\kubelet c:\VAR\LIB\KUBELET D:\csi\work C: D: \ \\ / .. . ... pods pv1 NUL com1 lpt² CONIN$ a. : ::$DATA * ? | < > ",
    r#"" \\?\ \\.\ \??\ ~1 kubelet2 KUBELE~1 var lib kubelet csi work ß 😀 .txt $ % mount"#
);
const BLANKS: [&str; 5] = [" ", "b ", "\u{0}", "\t", "\u{212A}ubelet"];
const STARTS: [&str; 5] = ["", r"C:\var\lib\kubelet\", r"c:\var\\lib\kubelet", r"D:\csi\work\", r"C:\"];

fn any_path() -> impl Strategy<Value = String> {
    let pieces: Vec<&str> = PIECES.split(' ').chain(BLANKS).collect();
    let piece = prop_oneof![
        18 => prop::sample::select(pieces).prop_map(str::to_owned),
        1 => (200..270_usize).prop_map(|count| "x".repeat(count)),
        1 => prop::char::range('\0', '\u{3000}').prop_map(String::from),
    ];
    let separator = prop::sample::select(vec!["", "\\"]);
    (prop::sample::select(STARTS.to_vec()), prop::collection::vec(piece, 0..7), separator)
        .prop_map(|(start, pieces, separator)| format!("{start}{}", pieces.join(separator)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_accepted_path_is_outside_the_directories(text in any_path()) {
        if let Ok(allowed) = rules(Validation::Strict).check(&text) {
            prop_assert!(judge(&text).is_some(), "{text:?} passed as {}", allowed.path);
            let built = allowed.below.iter().fold(allowed.root.clone(), |path, name| path.join(name));
            prop_assert_eq!(built, allowed.path);
        }
    }
}

#[test]
fn administrator_paths_are_normalised() {
    let normal = |text: &str| WinPath::normalise(text).map(|path| path.to_string());
    assert_eq!(normal("/var/lib/x").as_deref(), Some(r"C:\var\lib\x"));
    assert_eq!(normal(r"\var\lib\x").as_deref(), Some(r"C:\var\lib\x"));
    assert_eq!(normal(r"C:\x/y").as_deref(), Some(r"C:\x\y"));
    assert_eq!(normal(r"C:\\var\\lib\\kubelet\\").as_deref(), Some(KUBELET));
    for none in ["", "x", r"\\srv\share", "C:", r"C:\a\..\b", r"C:\a:b"] {
        assert_eq!(normal(none), None, "{none}");
    }
}
