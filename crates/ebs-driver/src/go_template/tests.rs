//! Test vectors, each checked against Go's own `text/template`.

mod limits;

use super::{Data, TemplateError, render};

fn of_names(pvc: &str, namespace: &str, pv: &str) -> Data {
    Data::new([("PVCName", pvc), ("PVCNamespace", namespace), ("PVName", pv)].map(|(name, value)| (name, value.into())))
}

fn volume() -> Data {
    of_names("data-db-0", "team-a", "pvc-1234-abcd")
}

/// Templates with their output, separated by `¦`, with `⏎`, `⇥` and `↓` for a new line, a tab and a vertical tab.
const VALUES: &str = r##"
    {{.}} ⇒ {data-db-0 team-a pvc-1234-abcd} ¦ {{print .}} ⇒ &{data-db-0 team-a pvc-1234-abcd} ¦
    {{printf "%v" .}} ⇒ &{data-db-0 team-a pvc-1234-abcd} ¦ {{range 3}}{{.}},{{end}} ⇒ 0,1,2, ¦
    {{range $i := 3}}{{$i}},{{end}} ⇒ 0,1,2, ¦ {{$i := 5}}{{range $i = 3}}{{$i}},{{end}}{{$i}} ⇒ 0,1,2,2 ¦
    {{range -1}}x{{else}}none{{end}} ⇒ none ¦ {{printf "%05s|%-5s|%5s" "ab" "cd" "ef"}} ⇒ 000ab|cd   |   ef ¦
    {{9223372036854775807}} {{-9223372036854775808}} ⇒ 9223372036854775807 -9223372036854775808 ¦
    {{true}} {{false}} {{print nil}} {{print 1 2 "a" "b" 3}} {{println 1 "x"}} ⇒ true false <nil> 1 2ab3 1 x⏎ ¦
    {{eq 1 2 1}} {{ne 1 2}} {{lt "a" "b"}} {{le 1 1}} {{gt 2 1}} {{ge 1 2}} ⇒ true true true true true false ¦
    {{len .PVName}} {{slice .PVName 4 8}} {{slice .PVName 4}} {{slice .PVName}} ⇒ 13 1234 1234-abcd pvc-1234-abcd ¦
    {{and 1 0 2}} {{or 0 "" "x"}} {{not 0}} ⇒ 0 x true ¦ {{and 1 .PVName}} {{and 0 .Bad}} ⇒ pvc-1234-abcd 0 ¦
    {{or 1 (index "a")}} ⇒ 1 ¦ {{$x := .PVName}}{{$x}}{{$x = "b"}}{{$x}} ⇒ pvc-1234-abcdb ¦
    {{with .PVName}}{{.}}{{end}}{{with ""}}a{{else}}b{{end}}{{with ""}}a{{else with "z"}}{{.}}{{end}} ⇒ pvc-1234-abcdbz ¦
    {{if 0}}a{{else if 1}}b{{else}}c{{end}} ⇒ b ¦
    {{define "x"}}[{{.}}]{{end}}{{template "x" .PVName}}{{template "x"}} ⇒ [pvc-1234-abcd][<no value>] ¦
    {{block "b" .PVName}}<{{.}}>{{end}} ⇒ <pvc-1234-abcd> ¦
    {{range 5}}{{if eq . 3}}{{break}}{{end}}{{if eq . 1}}{{continue}}{{end}}{{.}}{{end}} ⇒ 02 ¦
    a {{- "b" -}} c ⇒ abc ¦ a {{-3}} c ⇒ a -3 c ¦ {{/* c */}}x{{- /* c */ -}} y ⇒ xy ¦
    {{"a\n\u00e9\U0001F600"}} {{`raw\n`}} ⇒ a⏎é😀 raw\n ¦
    {{.PVName|toUpper}} {{"x" | printf "%s-%s" "a"}} ⇒ PVC-1234-ABCD a-x ¦
    {{(.).PVName}} {{$.PVName}} {{(.PVName)}} ⇒ pvc-1234-abcd pvc-1234-abcd pvc-1234-abcd ¦
    {{field "-" 1 .PVName}} {{.PVName | field "-" 2}} ⇒ 1234 abcd ¦ {{field "" 1 "aéb"}} ⇒ é ¦
    {{field "-" 0 ""}} ⇒ ¦
    {{substring -1 3 .PVName}} {{substring 4 -1 .PVName}} {{substring 4 8 .PVName}} {{substring 4 99 .PVName}} ⇒ pvc 1234-abcd 1234 1234-abcd ¦
    }} ⇒ }} ¦ x}}y ⇒ x}}y ¦ {{print 1⏎2}} ⇒ 1 2 ¦ {{eq . .}} {{eq nil nil}} ⇒ true true ¦ {{and nil}} ⇒ <no value> ¦
    {{or nil 0}} ⇒ 0 ¦ {{define "x"}}{{print .}}{{if .}}y{{else}}n{{end}}{{end}}{{template "x"}} ⇒ <nil>n ¦
    {{define "x"}}{{.PVName}}{{end}}{{template "x"}} ⇒ <no value> ¦
    {{define "x"}}{{$.PVName}}{{end}}{{template "x" .}} ⇒ pvc-1234-abcd ¦ {{$x:=1}}{{$x}} ⇒ 1 ¦ {{not nil}} ⇒ true ¦
    {{1 | print}} {{print 1 | len}} ⇒ 1 1 ¦ {{1|eq 1}} {{"a" | eq "a" "b"}} ⇒ true true ¦ {{"b" | or ""}} ⇒ b ¦
    {{template "x" 1 | print}}{{define "x"}}{{.}}{{end}} ⇒ 1 ¦ {{if $x := .PVName}}{{$x}}{{end}} ⇒ pvc-1234-abcd ¦
    {{with $x := "a"}}{{.}}{{$x}}{{end}} ⇒ aa ¦ {{range $x := 2}}{{$x}}{{else}}{{$x}}{{end}} ⇒ 01 ¦
    {{range $x := 0}}{{$x}}{{else}}{{$x}}{{end}} ⇒ 0 ¦
    {{range 3}}{{range 2}}{{if .}}{{continue}}{{end}}{{.}}{{end}};{{end}} ⇒ 0;0;0; ¦
    {{range 2}}{{range 0}}{{else}}{{break}}{{end}};{{end}} ⇒ ;; ¦
    {{range 2}}{{range 0}}{{else}}{{continue}}{{end}};{{end}} ⇒ ¦
    {{define "a"}} {{end}}{{define "a"}}y{{end}}{{template "a"}} ⇒ y ¦
    {{define "a"}}{{/* c */}}{{end}}{{define "a"}}y{{end}}{{template "a"}} ⇒ y ¦
    {{print (print 1) (print 2)}} ⇒ 12 ¦ {{(1)}} {{(print "x") | toUpper}} ⇒ 1 X ¦ {{1 |}} ⇒ 1 ¦ {{$ := 1}} ⇒ ¦
    {{$ := 1}}{{$}} ⇒ 1 ¦ {{slice "abc" 3}}|{{slice "abc" 0 0}} ⇒ | ¦
    {{contains "a" "cat"}} {{index "t" "cat"}} {{lastIndex "z" "cat"}} {{contains "cat" "a"}} {{index "" "cat"}} {{lastIndex "" "cat"}} {{lastIndex "a" "banana"}} ⇒ true 2 -1 false 0 3 5 ¦
    {{printf "%-5s|%5s|%.2s|%5.1s|%-5.1s|%.s|%.9s" "cd" "ef" "héllo" "abc" "abc" "abc" "abc"}} ⇒ cd   |   ef|hé|    a|a    ||abc ¦
    {{printf "%v %v %v %v %t %5t|%%" 1 "s" true nil true false}} ⇒ 1 s true <nil> true false|% ¦
    {{printf "%q %q %.1q %q" "q\"" "é\u0001\n" "abc" "\u00a0"}} ⇒ "q\"" "é\x01\n" "a" "\u00a0" ¦
    {{$format := "%s-%03d"}}{{printf $format .PVCName 7}} ⇒ data-db-0-007 ¦
    {{.PVName | printf "%s:%.3s" "a"}} ⇒ a:pvc ¦ {{println}}{{print}}|{{println "a" 1 2}} ⇒ ⏎|a 1 2⏎ ¦
    {{print true false "x" nil 1}} ⇒ true falsex<nil> 1 ¦ {{/* a */ -}}  x  {{- /* b */}}y ⇒ xy ¦
    a  {{/* c */ -}}  b ⇒ a  b ¦ {{ "x" -}}   y {{- "z" }} ⇒ xyz ¦ {{"x" -}}y ⇒ xy ¦ {{- "x"}} ⇒ x ¦
    {{3 -}} x ⇒ 3x ¦ {{$x := 1}}{{if true}}{{$x = 2}}{{$x := 3}}{{$x}}{{end}}{{$x}} ⇒ 32 ¦
    {{with 0}}{{else}}{{.PVName}}{{end}} ⇒ pvc-1234-abcd ¦
    {{block "b" .}}{{.PVName}}{{end}}{{template "b" .}} ⇒ pvc-1234-abcdpvc-1234-abcd ¦
    {{len (slice .PVName 1 3)}} {{(len .PVName) | print}} ⇒ 2 13 ¦ {{true|not}} ⇒ false ¦ {{eq 1 nil}} ⇒ false ¦
    {{eq nil 1}} ⇒ false ¦ {{ne nil nil}} {{ne true false}} ⇒ false true ¦
    {{$x := 1}}{{if $x = 0}}a{{else}}b{{end}}{{$x}} ⇒ b0 ¦ {{$x := 1}}{{with $x = 7}}{{.}}{{end}}{{$x}} ⇒ 77 ¦
    {{$x := 1 | print}}{{$x}} ⇒ 1 ¦ {{($x := 1)}} ⇒ 1 ¦ {{($x := 1)}}{{$x}} ⇒ 11 ¦
    {{toUpper (.PVName | slice)}} ⇒ PVC-1234-ABCD ¦ {{.PVName | slice | toUpper}} ⇒ PVC-1234-ABCD ¦
    {{if and .PVName (eq .PVCNamespace "team-a")}}yes{{end}} ⇒ yes ¦
    {{if or (contains "db" .PVCName) false}}db{{else}}other{{end}}-{{.PVCNamespace | toUpper | field "-" 0}} ⇒ db-TEAM ¦
    {{range $i := len .PVCName}}{{if lt $i 2}}{{slice $.PVCName $i}}{{end}}{{end}} ⇒ data-db-0ata-db-0 ¦
    {{range 2}}{{template "q" .}}{{end}}{{define "q"}}{{range 3}}{{if .}}{{break}}{{end}}{{.}}{{end}}{{end}} ⇒ 00 ¦
    {{define `raw`}}r{{end}}{{template `raw`}} ⇒ r ¦ {{$ }} ⇒ {data-db-0 team-a pvc-1234-abcd} ¦ {{not .}} ⇒ false ¦
    {{"é" | len}} {{"é" | toUpper}} {{"ß" | toUpper}} ⇒ 2 É ß ¦ {{print ("a") ("b")}} ⇒ ab ¦
    {{print (1) (2)}} ⇒ 1 2 ¦ {{print ((1))}} ⇒ 1 ¦ {{printf "%s" (printf "%d" 1)}} ⇒ 1 ¦ {{+1}} {{-1}} ⇒ 1 -1 ¦
    {{$é := 1}}{{$é}} ⇒ 1 ¦ {{"}}"}} ⇒ }} ¦ {{`}}`}} ⇒ }} ¦ {{/* }} */}} ⇒ ¦ {{- /* x */}} ⇒ ¦ {{/* x */ -}} a ⇒ a ¦
    { {.PVName} } ⇒ { {.PVName} } ¦ {{print `a⏎b`}} ⇒ a⏎b ¦
    [{{define "a"}}x{{end}} {{define "a"}} {{end}}{{template "a"}}] ⇒ [ x] ¦ {{"tab\t\v\""}} ⇒ tab⇥↓" ¦
    [{{printf "%5d|%-5d|%05d|%d|%-03d|%3d|%03d" 1 2 3 -255 4 -5 -5}}] ⇒ [    1|2    |00003|-255|4  | -5|-05]
"##;

/// Templates that are rejected, separated by `¦`, with `⏎` for a new line.
const REFUSED: &str = r##"
    {{range "abc"}}{{.}}{{end}} ¦ {{range $i, $e := 3}}{{$i}},{{end}} ¦ {{range nil}}x{{end}} ¦
    {{range .PVName}}x{{end}} ¦ {{9223372036854775808}} ¦ {{nil}} ¦ {{eq 1 1.0}} ¦ {{eq "a" 1}} ¦
    {{lt true false}} ¦ {{slice .PVName 1 2 3}} ¦ {{len 3}} ¦ {{and}} ¦ {{.Bad}} ¦ {{.PVName.X}} ¦ {{$x}} ¦
    {{if .PVName}}{{$y := 1}}{{end}}{{$y}} ¦ {{template "none"}} ¦ {{break}} ¦ {{/* c */ }} ¦ {{"unterminated}} ¦
    {{print "a"(1)}} ¦ {{"x"|1}} ¦ {{1 2}} ¦ {{.PVName 1}} ¦ {{($x)}}{{(1)}} ¦ {{(print .PVName).X}} ¦
    {{field "-" 9 .PVName}} ¦ {{field "-" -1 .PVName}} ¦ {{field "" 0 ""}} ¦ {{field "-" 1.5 .PVName}} ¦
    {{field "-" "1" .PVName}} ¦ {{substring 8 4 .PVName}} ¦ {{substring -1 -1 .PVName}} ¦
    {{substring 99 -1 .PVName}} ¦ {{substring -1 99 .PVName}} ¦ {{html "a"}} ¦ {{toUpper 1}} ¦ {{toUpper}} ¦
    {{toUpper "a" "b"}} ¦ {{nosuch}} ¦ {{ ¦ {{}} ¦ {{if}}x{{end}} ¦ {{if 1}} ¦ {{end}} ¦ {{else}} ¦ {{- -}}x ¦
    {{.PVName}}{{- "⏎" -}} {{print 1 2}} ¦ {{define "x"}}1{{end}}{{define "x"}}2{{end}}{{template "x"}} ¦
    {{if true}}{{define "x"}}1{{end}}{{end}} ¦ {{not}} ¦ {{len}} ¦
    {{define "x"}}{{$x}}{{end}}{{$x := 1}}{{template "x"}} ¦ {{$x=1}} ¦ {{089}} ¦ {{1__0}} ¦ {{1_}} ¦ {{len nil}} ¦
    {{eq}}  ¦ {{eq 1}} ¦ {{printf 1}} ¦ {{printf}} ¦ {{range 2}}{{break}}{{else}}{{break}}{{end}} ¦
    {{define a}}x{{end}} ¦ {{template a}} ¦ {{if true}}x{{else}}y{{else}}z{{end}} ¦
    {{range 1}}{{else if 1}}{{end}} ¦ {{ .PVName.PVName }} ¦ {{"a".B}} ¦ {{print.PVName}} ¦ {{ (1 }} ¦ {{ 1) }} ¦
    {{1 ||}} ¦ {{| 1}} ¦ {{$x := $y := 1}} ¦ {{$a, $b := 1}} ¦ {{slice .PVName 5 2}} ¦ {{slice "a" -1}} ¦
    {{slice "abc" "1"}} ¦ {{slice 5 1}} ¦ {{slice "abc" 4}} ¦ {{slice "abc" 1.0}} ¦ {{'''}} ¦ {{"a\qb"}} ¦
    {{"\u12"}} ¦ {{"\'"}} ¦ {{"x"- }} ¦ {{-"x"}} ¦ {{3-}} x ¦ {{block "b"}}x{{end}} ¦ {{else if}} ¦
    {{if 1}}a{{end}}{{end}} ¦ {{.a-b}} ¦ {{print .PVName,1}} ¦ {{print 'ab'}} ¦ {{ .PVName | . }} ¦ {{not 1 2}} ¦
    {{eq . 1}} ¦ {{lt 1 1.5}} ¦ {{lt "a" 1}} ¦ {{ne 1}} ¦ {{with $x, $y := 1}}{{end}} ¦ {{if $x = 1}}{{end}} ¦
    {{(print $x := 1)}} ¦ {{true false}} ¦ {{print true.X}} ¦ {{nil.X}} ¦ {{"a" "b"}} ¦ {{continue}} ¦
    {{range 1}}{{block "q" .}}{{break}}{{end}}{{end}} ¦ {{break 1}} ¦ {{end 1}} ¦ {{else 1}} ¦
    {{if 1}}{{else 1}}{{end}} ¦ {{template "x" 1 2}}{{define "x"}}{{end}} ¦ {{define "x" 1}}{{end}} ¦
    {{define "x"}}a ¦ {{define "x"}}a{{else}}b{{end}} ¦ {{range $x = 3}}{{end}} ¦ {{range $x, := 3}}{{end}} ¦
    {{range , $x := 3}}{{end}} ¦ {{range $x 3}}{{end}} ¦ {{.PVName .}} ¦ {{$.}} ¦ {{..}} ¦ {{.PVName.}} ¦
    {{. PVName}} ¦ {{a.b}} ¦ {{ . | len}} ¦ {{len .}} ¦ {{index . 1}} ¦ {{1 | 2 | 3}} ¦ {{1 | (print)}} ¦
    {{"x" | .PVName}} ¦ {{"x" | $}} ¦ {{-}} ¦ {{ - }} ¦ {{+1}} {{-1}} {{+}} ¦ {{1e}} ¦ {{0x}} ¦ {{0b12}} ¦ {{1a}} ¦
    {{0xg}} ¦ {{é}} ¦ {{.é}} ¦ {{_}} ¦ {{@}} ¦ {{#}} ¦ {{/*}} ¦ {{ /* x */ }} ¦ {{/* x */- }} ¦ {{{.PVName}}} ¦
    {{ {.PVName} }} ¦ {{.PVName}}{{ ¦ {{.PVName ¦ {{.PVName} ¦ {{print "a⏎"}}
"##;

/// Templates that Go accepts and this crate rejects: constants that no value could need, and values that do not fit
/// `printf`'s format, for which Go writes a mistake into the text.
const LEFT_OUT: &str = r##"
    {{1.5}} ¦ {{.5}} ¦ {{.1}} ¦ {{1.}} ¦ {{1e3}} ¦ {{-1.5e-3}} ¦ {{0x1F}} ¦ {{0b11}} ¦ {{0o17}} ¦ {{017}} ¦
    {{1_000}} ¦ {{'a'}} ¦ {{"\x41"}} ¦ {{"\101"}} ¦ {{printf "%d" "x"}} ¦ {{printf "%s" 3}} ¦ {{printf "%q" 66}} ¦
    {{printf "%t" "x"}} ¦ {{printf "%d" nil}} ¦ {{printf "%.2v" 5}} ¦ {{printf "%d"}} ¦ {{printf "%d %d" 1}} ¦
    {{printf "a" 1}} ¦ {{printf "%s" "a" "b" 3}} ¦ {{.PVName | printf "%s:%d" "a"}}
"##;

/// Verbs and flags of Go's `printf` that are not supported.
const UNSUPPORTED_VERBS: &[&str] = &[
    "%", "%5", "%.", "%-", "%x", "%X", "%b", "%o", "%O", "%c", "%U", "%e", "%f", "%.2f", "%g", "%T", "%p", "%z", "%é",
    "%!", "%+d", "% d", "%#q", "%+v", "%*d", "%.*s", "%[1]d", "%.3d", "%.1t", "%5%",
];

/// The templates use conditions, ranges, definitions, variables, trimming, comparisons and printf.
#[test]
fn template_produces_same_output_as_in_go() {
    let rows = VALUES.split('¦').map(|row| row.split_once('⇒').expect("a row"));
    for (template, wanted) in rows {
        let template = template.trim().replace('⏎', "\n");
        let wanted = wanted.trim().replace('⏎', "\n").replace('⇥', "\t").replace('↓', "\u{b}");
        let made = render(&template, &volume()).unwrap_or_else(|e| panic!("{template}: {e}"));
        assert_eq!(made, wanted, "{template}");
    }
}

/// Go rejects a template at parsing or execution. Unsupported are some constants and uses of `printf`.
#[test]
fn template_that_is_invalid_in_go_or_unsupported_is_rejected() {
    for template in REFUSED.split('¦').chain(LEFT_OUT.split('¦')) {
        let template = template.trim().replace('⏎', "\n");
        let made = render(&template, &volume());
        assert!(
            matches!(made, Err(TemplateError::Parse { .. } | TemplateError::Evaluate { .. })),
            "{template} made {made:?}"
        );
    }
}

/// The driver checks `--extra-tags` at start, before any value is known. The error names the supported verbs.
#[test]
fn unsupported_verb_is_rejected_before_values_are_known() {
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
fn error_of_unknown_field_names_existing_fields() {
    let error = render("{{.VolumeSnapshotName}}", &volume()).unwrap_err().to_string();
    assert!(error.contains(".VolumeSnapshotName") && error.contains(".PVCName"), "{error}");
}

#[test]
fn unknown_metadata_is_empty_string() {
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

/// EC2 rejects invalid text.
#[test]
fn cutting_text_within_character_is_an_error() {
    for template in ["{{slice \"é\" 1}}", "{{substring 0 1 \"é\"}}"] {
        assert!(render(template, &volume()).is_err(), "{template}");
    }
}

#[test]
fn error_has_its_line() {
    let error = render("a\nb{{.PVCName}}\n{{.Nothing}}", &volume()).unwrap_err();
    assert!(matches!(error, TemplateError::Evaluate { line: 3, .. }), "{error:?}");
    let error = render("a\nb{{nosuch}}", &volume()).unwrap_err();
    assert!(matches!(error, TemplateError::Parse { line: 2, .. }), "{error:?}");
}
