use std::collections::BTreeMap;

use super::lexer::{PlacedToken, Token};
use super::tree::{Branch, Command, Node, Operand, Pipe, Templates};
use super::value::Value;
use super::{Result, TemplateError, functions, limits, printf};

pub(super) fn parse(tokens: Vec<PlacedToken>) -> Result<Templates> {
    let mut parser =
        Parser { tokens, at: 0, variables: vec!["$".to_owned()], ranges: 0, depth: 0, defined: BTreeMap::new() };
    let (main, end) = parser.list(true)?;
    match end {
        Ends::Text => Ok(Templates { main, defined: parser.defined }),
        Ends::End => parser.error("unexpected {{end}}"),
        Ends::Else => parser.error("unexpected {{else}}"),
    }
}

enum Ends {
    Text,
    End,
    Else,
}

struct Parser {
    tokens: Vec<PlacedToken>,
    at: usize,
    /// Variables in scope. An inner variable may have the same name as an outer one.
    variables: Vec<String>,
    ranges: usize,
    depth: usize,
    defined: BTreeMap<String, Vec<Node>>,
}

impl Parser {
    fn line(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |t| t.line)
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(TemplateError::Parse { line: self.line(), message: message.into() })
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|t| &t.token)
    }

    fn peek_word(&mut self) -> Option<&Token> {
        while self.peek() == Some(&Token::Space) {
            self.at += 1;
        }
        self.peek()
    }

    /// Consumes the next token, and the spaces before it, if the token equals `token`. Returns true if it was consumed.
    fn accept(&mut self, token: &Token) -> bool {
        let found = self.peek_word() == Some(token);
        if found {
            self.at += 1;
        }
        found
    }

    fn expect(&mut self, token: &Token, what: &str) -> Result<()> {
        if self.accept(token) { Ok(()) } else { self.error(format!("expected {what}")) }
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        limits::check_depth(self.depth)?;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Parses nodes up to the end of the text or of the enclosing construct.
    fn list(&mut self, outermost: bool) -> Result<(Vec<Node>, Ends)> {
        let mut nodes = Vec::new();
        loop {
            let Some(token) = self.peek() else { return Ok((nodes, Ends::Text)) };
            if let Token::Text(text) = token {
                nodes.push(Node::Text(text.clone()));
                self.at += 1;
                continue;
            }
            self.expect(&Token::Open, "{{")?;
            match self.peek_word() {
                Some(Token::Keyword("end")) => {
                    self.at += 1;
                    self.expect(&Token::Close, "}} after end")?;
                    return Ok((nodes, Ends::End));
                }
                Some(Token::Keyword("else")) => {
                    self.at += 1;
                    return Ok((nodes, Ends::Else));
                }
                Some(Token::Keyword("define")) if outermost => self.define()?,
                _ => nodes.push(self.nested(Self::action)?),
            }
        }
    }

    fn action(&mut self) -> Result<Node> {
        let Some(Token::Keyword(keyword)) = self.peek_word() else {
            return self.pipeline(&Token::Close, false).map(Node::Action);
        };
        let keyword = *keyword;
        self.at += 1;
        match keyword {
            "if" => self.branch(keyword).map(Node::If),
            "with" => self.branch(keyword).map(Node::With),
            "range" => self.branch(keyword).map(Node::Range),
            "break" => self.leave_range(keyword).map(|()| Node::Break),
            "continue" => self.leave_range(keyword).map(|()| Node::Continue),
            "template" => self.call(),
            "block" => self.block(),
            _ => self.error(format!("unexpected {{{{{keyword}}}}}")),
        }
    }

    fn leave_range(&mut self, what: &str) -> Result<()> {
        self.expect(&Token::Close, &format!("}}}} after {what}"))?;
        if self.ranges == 0 { self.error(format!("{{{{{what}}}}} outside of a range")) } else { Ok(()) }
    }

    fn branch(&mut self, keyword: &'static str) -> Result<Branch> {
        let scope = self.variables.len();
        let is_range = keyword == "range";
        let pipe = self.pipeline(&Token::Close, is_range)?;
        self.ranges += usize::from(is_range);
        let (body, end) = self.list(false)?;
        self.ranges -= usize::from(is_range);
        let otherwise = match end {
            Ends::End => Vec::new(),
            Ends::Else => self.otherwise(keyword)?,
            Ends::Text => return self.error("missing {{end}}"),
        };
        self.variables.truncate(scope);
        Ok(Branch { pipe, body, otherwise })
    }

    fn otherwise(&mut self, keyword: &'static str) -> Result<Vec<Node>> {
        if keyword != "range" && self.accept(&Token::Keyword(keyword)) {
            let node = if keyword == "if" { Node::If } else { Node::With };
            return self.nested(|p| p.branch(keyword)).map(|branch| vec![node(branch)]);
        }
        self.expect(&Token::Close, "}} after else")?;
        match self.list(false)? {
            (nodes, Ends::End) => Ok(nodes),
            (_, Ends::Else) => self.error("duplicate {{else}}"),
            (_, Ends::Text) => self.error("missing {{end}}"),
        }
    }

    fn name(&mut self, what: &str) -> Result<String> {
        match self.peek_word() {
            Some(Token::Constant(Value::Str(name))) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => self.error(format!("{what} requires a quoted name")),
        }
    }

    fn define(&mut self) -> Result<()> {
        self.at += 1;
        let name = self.name("define")?;
        self.expect(&Token::Close, "}} after the name")?;
        self.template(name)
    }

    fn call(&mut self) -> Result<Node> {
        let line = self.line();
        let name = self.name("template")?;
        let argument = if self.accept(&Token::Close) { None } else { Some(self.pipeline(&Token::Close, false)?) };
        Ok(Node::Call { line, name, argument })
    }

    fn block(&mut self) -> Result<Node> {
        let line = self.line();
        let name = self.name("block")?;
        let argument = Some(self.pipeline(&Token::Close, false)?);
        self.template(name.clone())?;
        Ok(Node::Call { line, name, argument })
    }

    /// Parses the body of a named template. The body sees only its own variables.
    fn template(&mut self, name: String) -> Result<()> {
        let variables = std::mem::replace(&mut self.variables, vec!["$".to_owned()]);
        let ranges = std::mem::take(&mut self.ranges);
        let (body, end) = self.nested(|p| p.list(false))?;
        if !matches!(end, Ends::End) {
            return self.error(format!("missing {{{{end}}}} of template {name:?}"));
        }
        self.variables = variables;
        self.ranges = ranges;
        // An empty definition never replaces another one. A second definition with content is an error.
        let is_defined = self.defined.get(&name).is_some_and(|old| !is_empty(old));
        if is_defined && !is_empty(&body) {
            return self.error(format!("template {name:?} is defined twice"));
        }
        if !is_defined {
            self.defined.insert(name, body);
        }
        Ok(())
    }

    fn pipeline(&mut self, end: &Token, is_range: bool) -> Result<Pipe> {
        self.peek_word();
        let line = self.line();
        let (variables, assigns) = self.declarations(is_range)?;
        let mut commands: Vec<Command> = Vec::new();
        loop {
            if self.accept(end) {
                break;
            }
            let command = self.command()?;
            if !commands.is_empty() && !can_be_given_a_value(&command) {
                return self.error("a value can only be piped into a function");
            }
            commands.push(command);
        }
        if commands.is_empty() {
            return self.error("missing value");
        }
        Ok(Pipe { line, variables, assigns, commands })
    }

    /// Parses `$x :=` or `$x =`, and `$i, $x :=` in a range.
    fn declarations(&mut self, is_range: bool) -> Result<(Vec<String>, bool)> {
        let mut names = Vec::new();
        loop {
            let start = self.at;
            let Some(Token::Variable(name)) = self.peek_word().cloned() else {
                return if names.is_empty() { Ok((names, false)) } else { self.error("expected a variable") };
            };
            self.at += 1;
            let declares = self.accept(&Token::Declare);
            // The evaluator checks whether an assigned variable exists.
            if declares || self.accept(&Token::Assign) {
                names.push(name);
                self.variables.extend(names.iter().cloned());
                return Ok((names, !declares));
            }
            if self.accept(&Token::Comma) {
                names.push(name);
                if !is_range || names.len() > 1 {
                    return self.error("too many variables");
                }
                continue;
            }
            self.at = start;
            return if names.is_empty() { Ok((names, false)) } else { self.error("expected :=") };
        }
    }

    fn command(&mut self) -> Result<Command> {
        self.peek_word();
        let line = self.line();
        let mut operands = Vec::new();
        loop {
            self.peek_word();
            if let Some(operand) = self.operand()? {
                operands.push(operand);
            }
            match self.peek() {
                Some(Token::Space) => self.at += 1,
                Some(Token::Close | Token::RightParen) => break,
                Some(Token::Pipe) => {
                    self.at += 1;
                    break;
                }
                _ => return self.error("expected an operand, | or the end of the action"),
            }
        }
        match operands.as_slice() {
            [] => return self.error("empty command"),
            [Operand::Function(name), Operand::Constant(Value::Str(format)), ..] if name == "printf" => {
                printf::check(format).map_err(|message| TemplateError::Unsupported { line, message })?;
            }
            _ => {}
        }
        Ok(Command { line, operands })
    }

    fn operand(&mut self) -> Result<Option<Operand>> {
        let is_of_dot = matches!(self.peek(), Some(Token::Field(_)));
        let operand = if is_of_dot { Some(Operand::Dot) } else { self.term()? };
        let Some(operand) = operand else { return Ok(None) };
        let mut fields = Vec::new();
        while let Some(Token::Field(name)) = self.peek() {
            fields.push(name.clone());
            self.at += 1;
        }
        if fields.is_empty() {
            return Ok(Some(operand));
        }
        match operand {
            Operand::Constant(_) => self.error("a constant has no fields"),
            Operand::Dot if !is_of_dot => self.error("unexpected field after dot"),
            operand => Ok(Some(Operand::Fields(Box::new(operand), fields))),
        }
    }

    fn term(&mut self) -> Result<Option<Operand>> {
        let Some(token) = self.peek().cloned() else { return self.error("unclosed action") };
        let operand = match token {
            Token::Dot => Operand::Dot,
            Token::Constant(value) => Operand::Constant(value),
            Token::Variable(name) if self.variables.contains(&name) => Operand::Variable(name),
            Token::Variable(name) => return self.error(format!("variable {name} is not defined")),
            Token::Identifier(name) if functions::exists(&name) => Operand::Function(name),
            Token::Identifier(name) => return self.error(format!("function {name:?} is not defined")),
            Token::LeftParen => {
                self.at += 1;
                let pipe = self.nested(|p| p.pipeline(&Token::RightParen, false))?;
                return Ok(Some(Operand::Pipe(Box::new(pipe))));
            }
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some(operand))
    }
}

/// Returns whether the command can receive a piped value: a plain dot or a constant cannot.
fn can_be_given_a_value(command: &Command) -> bool {
    !matches!(command.operands.first(), Some(Operand::Dot | Operand::Constant(_)))
}

fn is_empty(body: &[Node]) -> bool {
    body.iter().all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()))
}
