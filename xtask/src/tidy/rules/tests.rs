use super::super::source::Source;
use super::*;

/// Lines of the page of the file `crates/ebs-aws/tests/a.rs`, which holds `text`; or the findings.
fn table(text: &str) -> Result<Vec<String>, Vec<String>> {
    read(&[("crates/ebs-aws/tests/a.rs", text)]).map(|pages| rows(&pages, "docs/rules/ec2-calls.md"))
}

fn read(files: &[(&str, &str)]) -> Result<Pages, Vec<String>> {
    let found = |finding: Finding| format!("{}:{}: {}", finding.file.display(), finding.line, finding.problem);
    pages(&tree(files)).map_err(|findings| findings.into_iter().map(found).collect())
}

fn tree(files: &[(&str, &str)]) -> Tree {
    let mut sources = vec![
        Source::new("docs/spec/decisions.md", "# Decisions\n- D-26 Proof.\n- D-27 Ready.\n"),
        Source::new("docs/spec/node.md", "## 9. Publish\n| # | sev |\n| N-5 | M | Not so. |\n| N-6 | L | Nor so. |\n"),
        Source::new("docs/spec/windows.md", "- P-1 Pipes.\n"),
    ];
    sources.extend(files.iter().map(|(path, text)| Source::new(path, text)));
    Tree { sources }
}

fn rows(pages: &Pages, path: &str) -> Vec<String> {
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| rule") && !line.starts_with("| row");
    pages[Path::new(path)].lines().filter(is_row).map(str::to_owned).collect()
}

#[test]
fn a_rule_is_the_paragraph_above_its_origin() {
    let text = "/// Blank is\n/// proven.\n///\n/// Rule: node.md 9,\n/// N-5; D-26\n///\n/// As it comes.\n#[test]\nfn a() {}\n";
    assert_eq!(table(text).unwrap(), ["| Blank is proven. | node.md 9, N-5; D-26 | `a` |"]);
}

#[test]
fn one_test_may_prove_several_rules_and_several_tests_one() {
    let text = "/// One | two.\n///\n/// Rule: D-26\n#[test]\nfn a() {}\n\
                /// Two.\n///\n/// Rule: D-27\n///\n/// Three.\n///\n/// Rule: own rule (tests)\n///\n/// Rule: see `a`\n#[test]\nfn b() {}\n";
    let other = "/// Rule: see `crates/ebs-aws/tests/a.rs::a`\n#[test]\nfn c() {}\n";
    let pages = read(&[("crates/ebs-aws/tests/a.rs", text), ("xtask/src/b.rs", other)]).unwrap();
    assert_eq!(
        rows(&pages, "docs/rules/ec2-calls.md"),
        [
            "| One \\| two. | D-26 | `a`, `b`, `xtask/src/b.rs::c` |",
            "| Two. | D-27 | `b` |",
            "| Three. | own rule (tests) | `b` |"
        ]
    );
    assert!(pages[Path::new("docs/rules/README.md")].contains("- [Calls to EC2](ec2-calls.md)\n"));
}

/// A rule that names another test as the one that states it fails tidy when that test states none, or several.
///
/// Rule: own rule (house)
#[test]
fn a_reference_to_a_test_without_a_rule_of_its_own_or_with_several_is_found() {
    let found = table("/// Rule: see `b`\n#[test]\nfn a() {}\n#[test]\nfn b() {}\n");
    assert_eq!(found, Err(vec!["crates/ebs-aws/tests/a.rs:1: no test b states a rule".to_owned()]));
    let text = "/// Rule: see `b`\n#[test]\nfn a() {}\n/// A.\n///\n/// Rule: D-26\n///\n/// B.\n///\n/// Rule: D-26\n#[test]\nfn b() {}\n";
    assert_eq!(table(text), Err(vec!["crates/ebs-aws/tests/a.rs:1: b states several rules".to_owned()]));
    let found = table("/// Rule: see b\n#[test]\nfn a() {}\n");
    assert_eq!(found, Err(vec!["crates/ebs-aws/tests/a.rs:1: a reference that names no test".to_owned()]));
}

/// A rule that stands at no test, or an origin without a sentence, fails tidy.
///
/// Rule: own rule (house)
#[test]
fn a_rule_without_a_test_or_a_sentence_of_its_own_is_found() {
    for (text, problem) in [
        ("/// A.\n///\n/// Rule: D-26\nfn a() {}\n", "1: a rule that stands at no test"),
        ("/// A.\n///\n/// Rule: D-26\nstruct A;\n", "1: a rule that stands at no test"),
        ("/// Rule: D-26\n#[test]\nfn a() {}\n", "1: 0 paragraphs above `Rule:`"),
        ("/// A.\n///\n/// B.\n///\n/// Rule: D-26\n#[test]\nfn a() {}\n", "5: 2 paragraphs above `Rule:`"),
    ] {
        assert_eq!(table(text), Err(vec![format!("crates/ebs-aws/tests/a.rs:{problem}")]), "{text}");
    }
}

/// A rule whose origin is neither in the specifications nor of a known kind fails tidy.
///
/// Rule: own rule (house)
#[test]
fn an_origin_that_is_no_row_and_no_kind_of_ours_is_found() {
    for origin in ["as it ought to be", "D-26; somebody said so", &format!("node.md N-{}", 7), "own rule (mine)"] {
        let found = table(&format!("/// A.\n///\n/// Rule: {origin}\n#[test]\nfn a() {{}}\n")).unwrap_err();
        let part = origin.rsplit("; ").next().unwrap();
        assert_eq!(found, [format!("crates/ebs-aws/tests/a.rs:1: {part:?} is no origin")]);
    }
}

/// A rule that is stated twice fails tidy.
///
/// Rule: own rule (house)
#[test]
fn a_sentence_that_stands_twice_and_a_file_without_a_subject_are_found() {
    let rule = "/// A.\n///\n/// Rule: D-26\n#[test]\nfn a() {}\n";
    let found = read(&[("xtask/src/a.rs", rule), ("xtask/src/b.rs", rule)]).unwrap_err();
    assert_eq!(found, ["xtask/src/b.rs:1: stands at xtask/src/a.rs::a too"]);
    let found = read(&[("crates/new/src/a.rs", rule)]).unwrap_err();
    assert_eq!(found, ["crates/new/src/a.rs:1: no subject of docs/rules has rules of this file"]);
}

/// The rows of the specifications that no test cites are listed.
///
/// Rule: own rule (house)
#[test]
fn rows_that_no_test_cites_are_listed() {
    let pages = read(&[("xtask/src/a.rs", "/// A.\n///\n/// Rule: node.md N-5; D-26\n#[test]\nfn a() {}\n")]).unwrap();
    assert_eq!(rows(&pages, "docs/rules/open.md"), ["| D-27 | Ready. |", "| N-6 | Nor so. |"]);
    assert!(pages[Path::new("docs/rules/open.md")].contains("None of its 1 rows is cited."));
}

/// A row that no test cites, and that a list of what only Windows can prove names, says so.
///
/// Rule: own rule (house)
#[test]
fn a_row_that_only_windows_can_prove_says_so() {
    let list = "- **[W]** Sockets, which\n  nobody has (`node.md N-6`).\n- Others (`decisions.md D-27`).\n";
    let test = "/// A.\n///\n/// Rule: node.md N-5; D-26\n#[test]\nfn a() {}\n";
    let pages = read(&[("xtask/src/a.rs", test), ("docs/windows.md", list)]).unwrap();
    assert_eq!(rows(&pages, "docs/rules/open.md"), ["| D-27 | Ready. |", "| N-6 | [W] Nor so. |"]);
}

/// A page of docs/rules that is not what the doc comments of the tests say fails tidy.
///
/// Rule: own rule (house)
#[test]
fn a_page_that_is_not_what_the_tests_say_is_found() {
    let rule = ("xtask/src/a.rs", "/// A.\n///\n/// Rule: D-26\n#[test]\nfn a() {}\n");
    let written = read(&[rule]).unwrap();
    let with = |pages: &Pages| {
        let mut tree = tree(&[rule]);
        tree.sources.extend(pages.iter().map(|(path, text)| Source::new(path.to_str().unwrap(), text)));
        check(&tree).into_iter().map(|finding| finding.file.display().to_string()).collect::<Vec<_>>()
    };
    assert!(with(&written).is_empty());
    let mut other = written.clone();
    other.remove(Path::new("docs/rules/open.md"));
    other.get_mut(Path::new("docs/rules/repository.md")).unwrap().push_str("By hand.\n");
    other.insert("docs/rules/old.md".into(), String::new());
    assert_eq!(with(&other), ["docs/rules/open.md", "docs/rules/repository.md", "docs/rules/old.md"]);
}

#[test]
fn pages_are_written_and_what_is_none_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let old = Path::new("docs/rules/old.md");
    std::fs::create_dir_all(root.path().join(DIRECTORY)).unwrap();
    std::fs::write(root.path().join(old), "old").unwrap();
    let tree = tree(&[("docs/rules/old.md", "old")]);
    let pages = pages(&tree).unwrap_or_default();
    let changed = write(root.path(), &tree, &pages).unwrap();
    assert_eq!(changed.len(), pages.len() + 1);
    assert!(!root.path().join(old).exists());
    assert_eq!(
        std::fs::read_to_string(root.path().join("docs/rules/open.md")).unwrap(),
        pages[Path::new("docs/rules/open.md")]
    );
}
