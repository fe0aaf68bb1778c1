//! Diagrams of the documents: what a reader's renderer would not take is found here, as far as lines alone tell.

use std::collections::BTreeSet;

use super::Finding;
use super::source::{Source, Tree};

const OPENING: [&str; 7] = ["alt ", "opt ", "loop ", "par ", "critical ", "break ", "rect "];
const BETWEEN: [&str; 3] = ["else", "and ", "option "];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.sources.iter().filter(|source| source.path.extension().is_some_and(|e| e == "md"));
    pages
        .flat_map(|source| diagrams(source).into_iter().flat_map(|(line, text)| problems(source, line, &text)))
        .collect()
}

/// The diagrams of a page, each with the number of its first line.
fn diagrams(source: &Source) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (at, line) in source.text.lines().enumerate() {
        if inside && line.trim() == "```" {
            inside = false;
        } else if inside && let Some((_, text)) = found.last_mut() {
            text.push_str(line);
            text.push('\n');
        } else if line.trim() == "```mermaid" {
            inside = true;
            found.push((at + 2, String::new()));
        }
    }
    found
}

fn problems(source: &Source, first: usize, text: &str) -> Vec<Finding> {
    let found = match text.lines().next().unwrap_or_default().split_whitespace().next() {
        Some("sequenceDiagram") => Sequence::default().read(text),
        Some("graph" | "flowchart" | "stateDiagram-v2") => unbalanced(text),
        other => vec![(0, format!("a diagram of the kind {other:?}"))],
    };
    let mend = "write it as mermaid's documentation has it; here only what the documents use is known";
    found.into_iter().map(|(at, problem)| Finding::new(&source.path, first + at, problem, mend)).collect()
}

/// Lines whose brackets do not close.
fn unbalanced(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_end().ends_with('{') && line.trim() != "}")
    {
        for (open, close) in [('[', ']'), ('(', ')'), ('{', '}')] {
            if line.matches(open).count() != line.matches(close).count() {
                found.push((at, format!("{open} and {close} do not match")));
            }
        }
        if line.matches('"').count() % 2 == 1 {
            found.push((at, "a quote is not closed".to_owned()));
        }
    }
    found
}

/// A sequence diagram, line by line.
#[derive(Default)]
struct Sequence {
    participants: BTreeSet<String>,
    /// Lines of the blocks that are open.
    open: Vec<usize>,
}

impl Sequence {
    fn read(mut self, text: &str) -> Vec<(usize, String)> {
        let lines = text.lines().enumerate().skip(1);
        let mut found: Vec<_> = lines.filter_map(|(at, line)| Some((at, self.line(at, line.trim())?))).collect();
        found.extend(self.open.iter().map(|at| (*at, "this block has no end".to_owned())));
        found
    }

    fn line(&mut self, at: usize, line: &str) -> Option<String> {
        if line.is_empty() || line.starts_with("%%") || line == "autonumber" {
            return None;
        }
        if line.contains([';', '#']) {
            return Some("; and # end a line or begin a name of a character: say it in other words".to_owned());
        }
        for kind in ["participant ", "actor "] {
            if let Some(rest) = line.strip_prefix(kind) {
                let name = rest.split(" as ").next().unwrap_or(rest).trim();
                return (!self.participants.insert(name.to_owned())).then(|| format!("{name} takes part twice"));
            }
        }
        if line == "end" {
            return self.open.pop().is_none().then(|| "there is nothing to end".to_owned());
        }
        if OPENING.iter().any(|word| line.starts_with(word)) {
            self.open.push(at);
            return None;
        }
        if BETWEEN.iter().any(|word| line.starts_with(word)) {
            return self.open.is_empty().then(|| "this belongs into a block".to_owned());
        }
        self.of_participants(line)
    }

    /// A note or a message: whom it names takes part.
    fn of_participants(&self, line: &str) -> Option<String> {
        let Some((who, _)) = line.split_once(':') else { return Some("neither a message nor a note".to_owned()) };
        let note = ["Note over ", "Note right of ", "Note left of "].iter().find_map(|start| who.strip_prefix(start));
        let names: Vec<&str> = match note {
            Some(names) => names.split(',').collect(),
            None => {
                let arrow = ["-->>", "->>", "--x", "-x", "--)", "-)"].iter().find(|arrow| who.contains(**arrow));
                let Some(arrow) = arrow else { return Some("neither a message nor a note".to_owned()) };
                who.split(*arrow).collect()
            }
        };
        let stranger = names.into_iter().map(str::trim).find(|name| !self.participants.contains(*name))?;
        Some(format!("{stranger:?} does not take part"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(diagram: &str) -> Vec<String> {
        let page = Source::new("docs/a.md", &format!("# A\n```mermaid\n{diagram}\n```\n"));
        let findings = check(&Tree { sources: vec![page] });
        findings.into_iter().map(|finding| format!("{}: {}", finding.line, finding.problem)).collect()
    }

    /// A diagram that no renderer would take fails tidy: a block without an end, somebody who takes no part, brackets that do not match.
    #[test]
    fn a_diagram_that_cannot_be_rendered_is_found() {
        let head = "sequenceDiagram\nparticipant A\nparticipant B as the other";
        for (rest, problem) in [
            ("A->>C: x", "6: \"C\" does not take part"),
            ("loop for ever\nA->>B: x", "6: this block has no end"),
            ("end", "6: there is nothing to end"),
            ("A->>B: x; y", "6: ; and # end a line or begin a name of a character: say it in other words"),
            ("participant A", "6: A takes part twice"),
            ("A to B", "6: neither a message nor a note"),
            ("A to B: x", "6: neither a message nor a note"),
        ] {
            assert_eq!(found(&format!("{head}\n{rest}")), [problem]);
        }
        assert_eq!(found("graph TD\n  a[x --> b"), ["4: [ and ] do not match"]);
        assert_eq!(found("pie\n"), ["3: a diagram of the kind Some(\"pie\")"]);
        let fine = format!("{head}\nalt so\nA->>B: x (y)\nelse not so\nB-->>A: z\nend\nNote over A,B: both\n");
        assert!(found(&fine).is_empty(), "{:?}", found(&fine));
        assert!(found("graph TD\n  a[x] --> b(y) & c{z}").is_empty());
    }
}
