//! The rules that the tests state: sentence, origin and the tests that prove it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::doc_comment::{DocComment, Paragraph, doc_comments};
use super::subject;
use crate::tidy::Finding;
use crate::tidy::citations::Specifications;
use crate::tidy::source::{Source, Tree};

/// What begins the paragraph with a rule's origin.
const SIGN: &str = "Rule:";
/// What begins an origin that no specification states: kinds that the catalogue's README explains.
const OWN_ORIGINS: [&str; 5] =
    ["found by the model", "own rule (bad input)", "own rule (model)", "own rule (tests)", "own rule (house)"];
/// Documents of AWS, which say more of EC2 than the specifications do.
const OUTSIDE: [&str; 3] = ["EBS user guide", "EC2 API reference", "EC2 service authorization reference"];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Test {
    pub(super) path: PathBuf,
    pub(super) name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) sentence: String,
    pub(super) origin: String,
    /// Where the sentence stands.
    pub(super) test: Test,
    /// The others that prove it.
    pub(super) also: Vec<Test>,
    /// Of the sentence, in the test's file.
    line: usize,
}

/// All rules, by path and place in the file.
pub(super) struct Catalogue {
    pub(super) rules: Vec<Rule>,
}

impl Catalogue {
    /// # Errors
    /// What is wrong with the rules that the tests state.
    pub(super) fn read(tree: &Tree, specifications: &Specifications) -> Result<Self, Vec<Finding>> {
        let mut draft = Draft::default();
        for source in tree.rust().filter(|source| source.text.contains(SIGN)) {
            draft.read(source);
        }
        draft.resolve();
        draft.check(specifications);
        if draft.findings.is_empty() { Ok(Self { rules: draft.rules }) } else { Err(draft.findings) }
    }
}

struct Reference {
    from: Test,
    line: usize,
    /// As it is written: `test` or `path::test`.
    to: String,
}

#[derive(Default)]
struct Draft {
    rules: Vec<Rule>,
    references: Vec<Reference>,
    findings: Vec<Finding>,
}

impl Draft {
    fn read(&mut self, source: &Source) {
        match doc_comments(&source.text) {
            Ok(comments) => {
                for comment in comments.iter().filter(|comment| comment.paragraphs.iter().any(is_rule)) {
                    self.read_comment(source, comment);
                }
            }
            Err(error) => {
                let line = error.span().start().line;
                self.findings.push(Finding::new(&source.path, line, "cannot be read as Rust", "make it compile"));
            }
        }
    }

    fn read_comment(&mut self, source: &Source, comment: &DocComment) {
        let Some(function) = comment.function.as_ref().filter(|function| function.is_test) else {
            let line = comment.paragraphs[0].line;
            return self.find(
                &source.path,
                line,
                "a rule that stands at no test",
                "move it to the test that proves it",
            );
        };
        let test = Test { path: source.path.clone(), name: function.name.clone() };
        // Paragraphs that may be the sentence of the next origin.
        let mut open: Vec<&Paragraph> = Vec::new();
        for paragraph in &comment.paragraphs {
            let Some(origin) = origin(paragraph) else {
                open.push(paragraph);
                continue;
            };
            if let Some(named) = origin.strip_prefix("see ") {
                self.refer(&test, paragraph.line, named);
            } else if let [sentence] = open[..] {
                self.rules.push(Rule {
                    sentence: sentence.text.clone(),
                    origin: origin.to_owned(),
                    test: test.clone(),
                    also: Vec::new(),
                    line: sentence.line,
                });
            } else {
                let problem = format!("{} paragraphs above `{SIGN}`", open.len());
                self.find(
                    &source.path,
                    paragraph.line,
                    problem,
                    "say the rule in one; other paragraphs come after the origin",
                );
            }
            open.clear();
        }
    }

    fn refer(&mut self, from: &Test, line: usize, named: &str) {
        let names: Vec<&str> = named.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            self.find(&from.path, line, "a reference that names no test", "name it in backquotes");
        }
        let names = names.into_iter().map(|to| Reference { from: from.clone(), line, to: to.to_owned() });
        self.references.extend(names);
    }

    /// Gives each rule the tests that refer to it.
    fn resolve(&mut self) {
        let mut by_test: BTreeMap<Test, Vec<usize>> = BTreeMap::new();
        for (at, rule) in self.rules.iter().enumerate() {
            by_test.entry(rule.test.clone()).or_default().push(at);
        }
        for Reference { from, line, to } in std::mem::take(&mut self.references) {
            let test = match to.split_once("::") {
                Some((path, name)) => Test { path: path.into(), name: name.to_owned() },
                None => Test { path: from.path.clone(), name: to.clone() },
            };
            match by_test.get(&test).map(Vec::as_slice) {
                Some(&[rule]) => self.rules[rule].also.push(from),
                Some(_) => self.find(
                    &from.path,
                    line,
                    format!("{to} states several rules"),
                    "let the rule stand at a test that states no other",
                ),
                None => self.find(&from.path, line, format!("no test {to} states a rule"), "correct the name"),
            }
        }
    }

    fn check(&mut self, specifications: &Specifications) {
        let mut sentences: BTreeMap<&str, &Rule> = BTreeMap::new();
        let mut findings = Vec::new();
        for rule in &self.rules {
            let mut find = |problem: String, mend: &str| {
                findings.push(Finding::new(&rule.test.path, rule.line, problem, mend));
            };
            for part in rule.origin.split(';').map(str::trim).filter(|part| !is_origin(part, specifications)) {
                find(
                    format!("{part:?} is no origin"),
                    "cite a row or section of docs/spec, or a kind that docs/rules/README.md lists",
                );
            }
            if let Some(other) = sentences.insert(&rule.sentence, rule) {
                let Test { path, name } = &other.test;
                find(
                    format!("stands at {}::{name} too", path.display()),
                    "say it once and name that test at the other: `Rule: see …`",
                );
            }
            if subject::of(&rule.test.path).is_none() {
                find(
                    "no subject of docs/rules has rules of this file".to_owned(),
                    "give its folder a subject in xtask/src/tidy/rules/subject.rs",
                );
            }
        }
        self.findings.extend(findings);
    }

    fn find(&mut self, path: &Path, line: usize, problem: impl Into<String>, mend: &str) {
        self.findings.push(Finding::new(path, line, problem, mend));
    }
}

fn is_rule(paragraph: &Paragraph) -> bool {
    origin(paragraph).is_some()
}

fn origin(paragraph: &Paragraph) -> Option<&str> {
    paragraph.text.strip_prefix(SIGN).map(str::trim)
}

fn is_origin(part: &str, specifications: &Specifications) -> bool {
    let is_ours = OWN_ORIGINS.contains(&part) || OUTSIDE.iter().any(|document| part.starts_with(document));
    is_ours || !specifications.cited_by(part).is_empty()
}
