//! Test vectors whose results come from Go's own `text/template`.

mod limits;

use super::{Data, TemplateError, render};

fn of_names(pvc: &str, namespace: &str, pv: &str) -> Data {
    Data::new([("PVCName", pvc), ("PVCNamespace", namespace), ("PVName", pv)].map(|(name, value)| (name, value.into())))
}

fn volume() -> Data {
    of_names("data-db-0", "team-a", "pvc-1234-abcd")
}

/// Templates and their output. `⏎`, `⇥` and `↓` stand for a new line, a tab and a vertical tab.
const VALUES: &str = include_str!("tests/values.txt");

/// Templates that are rejected. `⏎` means a new line.
const REFUSED: &str = include_str!("tests/refused.txt");

/// Templates that Go accepts and this crate rejects. They have kinds of constants that no tag value needs, or arguments
/// that do not fit `printf`'s format, for which Go writes an error into the text.
const LEFT_OUT: &str = include_str!("tests/left_out.txt");

/// Verbs and flags of Go's `printf` that are not supported.
const UNSUPPORTED_VERBS: &[&str] = &[
    "%", "%5", "%.", "%-", "%x", "%X", "%b", "%o", "%O", "%c", "%U", "%e", "%f", "%.2f", "%g", "%T", "%p", "%z", "%é",
    "%!", "%+d", "% d", "%#q", "%+v", "%*d", "%.*s", "%[1]d", "%.3d", "%.1t", "%5%",
];

/// The templates use conditions, ranges, definitions, variables, trimming, comparisons and printf.
#[test]
fn template_produces_same_output_as_in_go() {
    for (template, wanted) in VALUES.lines().map(|row| row.split_once('⇒').expect("a row")) {
        let template = template.trim().replace('⏎', "\n");
        let wanted = wanted.trim().replace('⏎', "\n").replace('⇥', "\t").replace('↓', "\u{b}");
        let made = render(&template, &volume()).unwrap_or_else(|e| panic!("{template}: {e}"));
        assert_eq!(made, wanted, "{template}");
    }
}

/// Go also rejects these templates at parsing or execution, except for some constants and uses of `printf`, which only
/// this crate rejects.
#[test]
fn template_that_is_invalid_in_go_or_unsupported_is_rejected() {
    for template in REFUSED.lines().chain(LEFT_OUT.lines()) {
        let template = template.trim().replace('⏎', "\n");
        let made = render(&template, &volume());
        assert!(
            matches!(made, Err(TemplateError::Parse { .. } | TemplateError::Evaluate { .. })),
            "{template} made {made:?}"
        );
    }
}

/// The driver checks `--extra-tags` at startup, before any value is known. The error names the supported verbs.
#[test]
fn unsupported_printf_verb_is_rejected_before_values_are_known() {
    for verb in UNSUPPORTED_VERBS {
        let template = format!("{{{{if .PVCName}}}}\n{{{{printf \"{verb}\" .PVCName}}}}{{{{end}}}}");
        let error = super::check(&template).unwrap_err();
        assert!(matches!(error, TemplateError::Unsupported { line: 2, .. }), "{verb}: {error:?}");
        assert_eq!(render(&template, &volume()).unwrap_err(), error, "{verb}");
        let of_a_variable = format!("{{{{$f := \"{verb}\"}}}}{{{{printf $f .PVCName}}}}");
        assert!(matches!(render(&of_a_variable, &volume()), Err(TemplateError::Evaluate { .. })), "{verb}");
    }
    let error = super::check("{{printf \"%x\" 1}}").unwrap_err().to_string();
    assert!(error.contains("%x is unsupported") && error.contains("%s, %v, %q, %d, %t"), "{error}");
}

#[test]
fn error_for_an_unknown_field_names_the_existing_fields() {
    let error = render("{{.VolumeSnapshotName}}", &volume()).unwrap_err().to_string();
    assert!(error.contains(".VolumeSnapshotName") && error.contains(".PVCName"), "{error}");
}

#[test]
fn template_field_without_metadata_is_an_empty_string() {
    let values = of_names("", "", "");
    assert_eq!(render("[{{.PVCName}}{{.PVCNamespace}}{{.PVName}}]", &values).unwrap(), "[]");
    assert_eq!(render("{{if .PVCName}}a{{else}}b{{end}}", &values).unwrap(), "b");
}

#[test]
fn html_js_call_and_urlquery_are_errors() {
    for name in ["html", "js", "call", "urlquery"] {
        for arguments in ["", " .PVCName", " \"a\" 1"] {
            let error = render(&format!("{{{{{name}{arguments}}}}}"), &volume()).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}

/// EC2 would reject the invalid text.
#[test]
fn slicing_text_within_a_character_is_an_error() {
    for template in ["{{slice \"é\" 1}}", "{{substring 0 1 \"é\"}}"] {
        assert!(render(template, &volume()).is_err(), "{template}");
    }
}

#[test]
fn template_error_names_the_line() {
    let error = render("a\nb{{.PVCName}}\n{{.Nothing}}", &volume()).unwrap_err();
    assert!(matches!(error, TemplateError::Evaluate { line: 3, .. }), "{error:?}");
    let error = render("a\nb{{nosuch}}", &volume()).unwrap_err();
    assert!(matches!(error, TemplateError::Parse { line: 2, .. }), "{error:?}");
}
