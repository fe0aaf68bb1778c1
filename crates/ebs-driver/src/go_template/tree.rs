use std::collections::BTreeMap;

use super::value::Value;

#[derive(Debug)]
pub(super) struct Templates {
    pub(super) main: Vec<Node>,
    pub(super) defined: BTreeMap<String, Vec<Node>>,
}

/// A part of a template. A `{{block}}` is a definition and a call.
#[derive(Debug)]
pub(super) enum Node {
    Text(String),
    Action(Pipe),
    If(Branch),
    With(Branch),
    Range(Branch),
    Break,
    Continue,
    Call { line: usize, name: String, argument: Option<Pipe> },
}

#[derive(Debug)]
pub(super) struct Branch {
    pub(super) pipe: Pipe,
    pub(super) body: Vec<Node>,
    pub(super) otherwise: Vec<Node>,
}

/// Commands and the variables to assign. Each command receives the previous result as its last argument.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) line: usize,
    pub(super) variables: Vec<String>,
    /// True for `=`, false for `:=`.
    pub(super) assigns: bool,
    pub(super) commands: Vec<Command>,
}

#[derive(Debug)]
pub(super) struct Command {
    pub(super) line: usize,
    pub(super) operands: Vec<Operand>,
}

#[derive(Debug)]
pub(super) enum Operand {
    Dot,
    Constant(Value<'static>),
    /// `$x`.
    Variable(String),
    Function(String),
    /// `(pipeline)`.
    Pipe(Box<Pipe>),
    /// `.A.B`, `$x.A.B`, `(pipeline).A.B`, `function.A.B`.
    Fields(Box<Operand>, Vec<String>),
}
