use super::literals;
use super::value::Value;
use super::{Result, TemplateError};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Text(String),
    /// `{{`, with or without a trim mark.
    Open,
    /// `}}`, with or without a trim mark.
    Close,
    Space,
    Pipe,
    LeftParen,
    RightParen,
    /// `:=`.
    Declare,
    /// `=`.
    Assign,
    Comma,
    Dot,
    Constant(Value<'static>),
    /// `.Name`, without the dot.
    Field(String),
    /// `$name`, with the dollar sign.
    Variable(String),
    Identifier(String),
    Keyword(&'static str),
}

/// Reserved words that are not function names.
const KEYWORDS: [&str; 10] = ["block", "break", "continue", "define", "else", "end", "if", "range", "template", "with"];

#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlacedToken {
    pub(super) token: Token,
    pub(super) line: usize,
}

const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

pub(super) fn tokens(text: &str) -> Result<Vec<PlacedToken>> {
    let mut lexer = Lexer { text, at: 0, line: 1, parens: 0, out: Vec::new() };
    lexer.text_and_actions()?;
    Ok(lexer.out)
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    parens: usize,
    out: Vec<PlacedToken>,
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self, bytes: usize) {
        let skipped = &self.rest()[..bytes];
        self.line += skipped.matches('\n').count();
        self.at += bytes;
    }

    fn push(&mut self, token: Token, line: usize) {
        self.out.push(PlacedToken { token, line });
    }

    fn take(&mut self, bytes: usize, token: Token) -> Result<()> {
        let line = self.line;
        self.skip(bytes);
        self.push(token, line);
        Ok(())
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(TemplateError::Parse { line: self.line, message: message.into() })
    }

    fn text_and_actions(&mut self) -> Result<()> {
        let mut trim_left = false;
        loop {
            let rest = self.rest();
            let end = rest.find("{{").unwrap_or(rest.len());
            let trim_right = trims_before(&rest[end..]);
            let mut piece = &rest[..end];
            if trim_left {
                piece = piece.trim_start_matches(SPACES);
            }
            if trim_right {
                piece = piece.trim_end_matches(SPACES);
            }
            let line = self.line;
            if !piece.is_empty() {
                self.push(Token::Text(piece.to_owned()), line);
            }
            self.skip(end);
            if self.rest().is_empty() {
                return Ok(());
            }
            let mark = if trim_right { 2 } else { 0 };
            trim_left = if self.rest()[2 + mark..].starts_with("/*") {
                self.comment(2 + mark)?
            } else {
                self.take(2 + mark, Token::Open)?;
                self.parens = 0;
                self.action()?
            };
        }
    }

    /// Skips a comment. Returns whether it trims the following text.
    fn comment(&mut self, start: usize) -> Result<bool> {
        let rest = &self.rest()[start + 2..];
        let Some(end) = rest.find("*/") else { return self.error("unclosed comment") };
        let after = &rest[end + 2..];
        let Some((length, trims)) = closes(after) else {
            return self.error("comment must end its action with */}}");
        };
        self.skip(start + 2 + end + 2 + length);
        Ok(trims)
    }

    /// Reads an action up to and including its closing braces. Returns whether they trim the following text.
    fn action(&mut self) -> Result<bool> {
        loop {
            if let Some((length, trims)) = closes(self.rest()) {
                if self.parens > 0 {
                    return self.error("unclosed parenthesis");
                }
                self.take(length, Token::Close)?;
                return Ok(trims);
            }
            let Some(c) = self.peek() else { return self.error("unclosed action: missing }}") };
            self.word(c)?;
        }
    }

    fn word(&mut self, c: char) -> Result<()> {
        let line = self.line;
        match c {
            '=' => self.take(1, Token::Assign),
            '|' => self.take(1, Token::Pipe),
            ',' => self.take(1, Token::Comma),
            c if SPACES.contains(&c) => {
                // White space before a closing trim mark belongs to the mark.
                while self.peek().is_some_and(|c| SPACES.contains(&c)) && closes(self.rest()).is_none() {
                    self.skip(1);
                }
                self.push(Token::Space, line);
                Ok(())
            }
            ':' if self.rest().starts_with(":=") => self.take(2, Token::Declare),
            '(' => {
                self.parens += 1;
                self.take(1, Token::LeftParen)
            }
            ')' => match self.parens.checked_sub(1) {
                Some(parens) => {
                    self.parens = parens;
                    self.take(1, Token::RightParen)
                }
                None => self.error("unexpected closing parenthesis"),
            },
            '"' => self.string(),
            '`' => self.raw_string(),
            '\'' => self.error("character constants are not supported"),
            '$' => self.name(c),
            '.' if !self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => self.name(c),
            '.' | '+' | '-' | '0'..='9' => self.number(),
            c if is_name(c) => self.name(c),
            c => self.error(format!("unexpected {c:?} in an action")),
        }
    }

    /// Reads `.Field`, `$variable`, a plain `.` or `$`, or a word.
    fn name(&mut self, first: char) -> Result<()> {
        let line = self.line;
        self.skip(usize::from(matches!(first, '.' | '$')));
        let name = self.take_name();
        if !self.at_terminator() {
            return self.error(format!("unexpected {:?} after a name", self.peek().unwrap_or(' ')));
        }
        let token = match (first, name) {
            ('.', "") => Token::Dot,
            ('.', name) => Token::Field(name.to_owned()),
            ('$', name) => Token::Variable(format!("${name}")),
            (_, name) => word(name),
        };
        self.push(token, line);
        Ok(())
    }

    fn take_name(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        self.skip(end);
        &rest[..end]
    }

    fn at_terminator(&self) -> bool {
        self.rest().starts_with("}}")
            || self.peek().is_none_or(|c| SPACES.contains(&c) || matches!(c, '.' | ',' | '|' | ':' | ')' | '('))
    }

    fn number(&mut self) -> Result<()> {
        let rest = self.rest();
        let length = rest[1..].find(|c| !(is_name(c) || c == '.')).map_or(rest.len(), |end| end + 1);
        match literals::integer(&rest[..length]) {
            Ok(number) => self.take(length, Token::Constant(Value::Int(number))),
            Err(message) => self.error(message),
        }
    }

    fn string(&mut self) -> Result<()> {
        let body = &self.rest()[1..];
        let mut escaped = false;
        let end = body.find(|c| {
            let ends = c == '\n' || (c == '"' && !escaped);
            escaped = c == '\\' && !escaped;
            ends
        });
        let Some(end) = end.filter(|end| body[*end..].starts_with('"')) else {
            return self.error("unclosed quoted constant");
        };
        match literals::unescape(&body[..end]) {
            Ok(text) => self.take(end + 2, Token::Constant(Value::Str(text))),
            Err(message) => self.error(message),
        }
    }

    fn raw_string(&mut self) -> Result<()> {
        let body = &self.rest()[1..];
        let Some(end) = body.find('`') else { return self.error("unclosed raw string") };
        self.take(end + 2, Token::Constant(Value::Str(body[..end].to_owned())))
    }
}

/// Returns whether the opening braces at the start of the text have a trim mark.
fn trims_before(text: &str) -> bool {
    text.strip_prefix("{{-").is_some_and(|rest| rest.starts_with(SPACES))
}

/// Returns the length of the closing braces at the start of the text, and whether they trim the following text.
fn closes(text: &str) -> Option<(usize, bool)> {
    if text.starts_with("}}") {
        return Some((2, false));
    }
    let trimmed = text.strip_prefix(SPACES)?;
    trimmed.starts_with("-}}").then_some((4, true))
}

fn is_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn word(name: &str) -> Token {
    match name {
        "nil" => Token::Constant(Value::Nil),
        "true" | "false" => Token::Constant(Value::Bool(name == "true")),
        name => match KEYWORDS.into_iter().find(|keyword| *keyword == name) {
            Some(keyword) => Token::Keyword(keyword),
            None => Token::Identifier(name.to_owned()),
        },
    }
}
