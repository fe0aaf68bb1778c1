//! The doc comments of a Rust file and the functions that they stand at, inside of macros too.

use std::str::FromStr;

use proc_macro2::{Delimiter, Group, LexError, TokenStream, TokenTree};
use syn::Lit;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DocComment {
    /// The function below it.
    pub(super) function: Option<Function>,
    pub(super) paragraphs: Vec<Paragraph>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// It has an attribute like `#[test]`, or stands inside of a macro, which may give it one.
    pub(super) is_test: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Paragraph {
    /// Of its first line in the file, from 1.
    pub(super) line: usize,
    /// On one line.
    pub(super) text: String,
}

/// All doc comments of outer form (`///`), in the file's order.
///
/// # Errors
/// `text` is no sequence of Rust tokens.
pub(super) fn doc_comments(text: &str) -> Result<Vec<DocComment>, LexError> {
    let mut found = Vec::new();
    search(TokenStream::from_str(text)?, false, &mut found);
    Ok(found)
}

/// What stands before an item.
#[derive(Default)]
struct Before {
    lines: Vec<(usize, String)>,
    is_test: bool,
}

fn search(tokens: TokenStream, in_macro: bool, found: &mut Vec<DocComment>) {
    let mut before = Before::default();
    let mut tokens = tokens.into_iter().peekable();
    // `!` or `name` after it: what follows in brackets belongs to a macro.
    let mut macro_begins = false;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(sign) if sign.as_char() == '#' => {
                if let Some(TokenTree::Group(attribute)) =
                    tokens.next_if(|next| matches!(next, TokenTree::Group(g) if g.delimiter() == Delimiter::Bracket))
                {
                    before.read(&attribute);
                }
            }
            TokenTree::Punct(sign) if sign.as_char() == '!' => macro_begins = true,
            TokenTree::Ident(word) if word == "fn" => {
                let name = tokens.next_if(|next| matches!(next, TokenTree::Ident(_))).map(|name| name.to_string());
                let is_test = before.is_test || in_macro;
                before.end(name.map(|name| Function { name, is_test }), found);
            }
            TokenTree::Ident(word) if ["pub", "async", "const", "unsafe"].iter().any(|modifier| word == modifier) => {}
            TokenTree::Group(group) => {
                // `(crate)` of `pub(crate)` ends nothing.
                if group.delimiter() != Delimiter::Parenthesis {
                    before.end(None, found);
                }
                search(group.stream(), in_macro || macro_begins, found);
                macro_begins = false;
            }
            TokenTree::Ident(_) => before.end(None, found),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {
                before.end(None, found);
                macro_begins = false;
            }
        }
    }
    before.end(None, found);
}

impl Before {
    fn read(&mut self, attribute: &Group) {
        let tokens: Vec<TokenTree> = attribute.stream().into_iter().collect();
        if let [TokenTree::Ident(doc), TokenTree::Punct(_), TokenTree::Literal(text)] = tokens.as_slice()
            && doc == "doc"
            && let Lit::Str(line) = Lit::new(text.clone())
        {
            self.lines.push((text.span().start().line, line.value()));
            return;
        }
        // The last word of the path, as in `tokio::test(start_paused = true)`.
        let path = tokens.iter().take_while(|token| matches!(token, TokenTree::Ident(_) | TokenTree::Punct(_)));
        self.is_test |= path.last().is_some_and(|word| word.to_string() == "test");
    }

    /// The item that this stood before has come.
    fn end(&mut self, function: Option<Function>, found: &mut Vec<DocComment>) {
        let Self { lines, .. } = std::mem::take(self);
        if !lines.is_empty() {
            found.push(DocComment { function, paragraphs: paragraphs(&lines) });
        }
    }
}

fn paragraphs(lines: &[(usize, String)]) -> Vec<Paragraph> {
    lines
        .split(|(_, text)| text.trim().is_empty())
        .filter(|lines| !lines.is_empty())
        .map(|lines| {
            let words: Vec<&str> = lines.iter().map(|(_, text)| text.trim()).collect();
            Paragraph { line: lines[0].0, text: words.join(" ") }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `function: paragraph | paragraph` for each doc comment.
    fn read(text: &str) -> Vec<String> {
        let of_one = |found: DocComment| {
            let paragraphs: Vec<String> =
                found.paragraphs.into_iter().map(|p| format!("{} {}", p.line, p.text)).collect();
            let name = found.function.map(|f| format!("{}{}", f.name, if f.is_test { "" } else { " (no test)" }));
            format!("{}: {}", name.unwrap_or_default(), paragraphs.join(" | "))
        };
        doc_comments(text).unwrap().into_iter().map(of_one).collect()
    }

    #[test]
    fn a_doc_comment_is_read_by_paragraphs_with_their_lines() {
        let text = "/// One \"a\"\n/// and two.\n///\n/// Three.\n#[test]\nfn a() {}\n";
        assert_eq!(read(text), ["a: 1 One \"a\" and two. | 4 Three."]);
    }

    #[test]
    fn tests_are_told_by_their_attribute() {
        assert_eq!(read("#[tokio::test(start_paused = true)]\n/// A.\npub(crate) async fn a() {}\n"), ["a: 2 A."]);
        assert_eq!(read("/// A.\n#[cfg(test)]\nfn a() {}\n"), ["a (no test): 1 A."]);
        assert_eq!(read("/// A.\nstruct A;\n#[test]\nfn a() {}\n"), [": 1 A."]);
    }

    #[test]
    fn functions_in_modules_and_macros_are_found() {
        let text = "mod tests {\n proptest! {\n  /// A.\n  #[test]\n  fn a(x in 0..3) {}\n }\n\n rows! {\n  /// B.\n  fn b() = 1;\n }\n}\n";
        assert_eq!(read(text), ["a: 3 A.", "b: 9 B."]);
    }

    #[test]
    fn what_is_no_rust_is_an_error() {
        assert!(doc_comments("fn a( {").is_err());
    }
}
