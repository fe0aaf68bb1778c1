//! Tests that rendering any template stays within the limits.

use proptest::prelude::*;

use super::volume;
use crate::go_template::{TemplateError, check, render};

/// The error names the exceeded limit: length, depth, steps or output.
#[test]
fn error_for_a_template_over_a_limit_names_the_limit() {
    let deep = format!("{}1{}", "{{if 1}}".repeat(500), "{{end}}".repeat(500));
    let parens = format!("{{{{{}1{}}}}}", "(".repeat(5000), ")".repeat(5000));
    let chain = format!("{{{{if 0}}}}{}{{{{end}}}}", "{{else if 0}}".repeat(400));
    let ifs = ("{{if true}}".repeat(30), "{{end}}".repeat(30));
    let calls_itself = format!(
        "{{{{define `x`}}}}{}{{{{print {}1{}}}}}{{{{template `x`}}}}{}{{{{end}}}}{{{{template `x`}}}}",
        ifs.0,
        "(".repeat(30),
        ")".repeat(30),
        ifs.1
    );
    let cases: &[(&str, &str)] = &[
        (&calls_itself, "deeper than"),
        ("{{range 1000000000}}{{end}}", "steps"),
        ("{{range 100000}}{{range 100000}}{{end}}{{end}}", "steps"),
        ("{{range 1000000}}{{print \"0123456789\" | len}}{{end}}", "than"),
        ("{{range 100000}}0123456789{{end}}", "longer than"),
        ("{{define \"x\"}}{{template \"x\"}}{{end}}{{template \"x\"}}", "deeper than"),
        (
            "{{define \"x\"}}{{template \"y\"}}{{end}}{{define \"y\"}}{{template \"x\"}}{{end}}{{template \"x\"}}",
            "deeper",
        ),
        ("{{$x := \"a\"}}{{range 100}}{{$x = print $x $x}}{{end}}", "longer than"),
        (&deep, "deeper than"),
        (&parens, "deeper than"),
        (&chain, "deeper than"),
    ];
    for (template, word) in cases {
        let error = render(template, &volume()).unwrap_err();
        assert!(
            matches!(error, TemplateError::Limit(_)) && error.to_string().contains(word),
            "{template:.60}: {error}"
        );
    }
    assert!(matches!(render(&"x".repeat(20_000), &volume()), Err(TemplateError::Limit(_))));
    assert!(render("{{printf \"%99999999d\" 1}}", &volume()).is_err());
    assert!(render("{{printf \"%16000d%16000d\" 1 1}}", &volume()).is_err());
    assert!(render("{{printf \"%.99999999s\" .PVName}}", &volume()).is_err());
}

/// Parts of templates, separated by `¦`. Many of their combinations are valid enough to get past the first syntax
/// error.
const PIECES: &str = "{{¦}}¦{{- ¦ -}}¦if ¦else¦end¦range ¦with ¦define ¦template ¦block ¦break¦continue¦.¦.PVCName¦$¦$x¦:=¦=¦,¦|¦\
                      (¦)¦ ¦\n¦\"¦`¦'¦\\¦\"a\"¦\"x\"¦1¦-1¦1.5¦0x¦1e¦99999999999999999999¦nil¦true¦/*¦*/¦printf ¦\
                      \"%*.[3]d%+q%\"¦print ¦slice ¦field ¦substring ¦index ¦len ¦eq ¦and ¦é¦\0¦x";

fn piece() -> impl Strategy<Value = String> {
    let pieces: Vec<String> = PIECES.split('¦').map(str::to_owned).collect();
    prop_oneof![8 => proptest::sample::select(pieces), 1 => any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rendering a template twice also returns the same result.
    #[test]
    fn no_template_causes_panic_or_hang(template in proptest::collection::vec(piece(), 0..40)) {
        let template = template.concat();
        let once = render(&template, &volume());
        prop_assert_eq!(&once, &render(&template, &volume()));
        match check(&template) {
            Err(error) => prop_assert_eq!(once, Err(error)),
            Ok(()) => {
                let is_of_reading =
                    matches!(once, Err(TemplateError::Parse { .. } | TemplateError::Unsupported { .. }));
                prop_assert!(!is_of_reading, "{:?}", once);
            }
        }
    }

    #[test]
    fn no_format_causes_panic_in_printf(format in "[%#0+\\- .*\\[\\]0-9vTtbcdoOqxXUeEfFgGsp%é]{0,12}", n in any::<i64>(), f in any::<i32>()) {
        let format = format.replace('"', "");
        let template = format!("{{{{printf `{format}` {n} {f} .PVCName nil true}}}}");
        let written = render(&template, &volume());
        prop_assert_eq!(&written, &render(&template, &volume()));
        if !format.contains('%') {
            // A value without a verb is an error.
            prop_assert!(written.is_err(), "{:?}", written);
        }
    }

    #[test]
    fn text_without_braces_is_unchanged(text in "[^{]{0,200}") {
        prop_assert_eq!(render(&text, &volume()).unwrap(), text);
    }
}
