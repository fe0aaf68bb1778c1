use super::functions;
use super::limits::{self, Fuel};
use super::tree::{Branch, Command, Node, Operand, Pipe, Templates};
use super::value::Value;
use super::{Data, Result, TemplateError};

pub(super) fn run(templates: &Templates, data: &Data) -> Result<String> {
    let mut run = Run { templates, fuel: Fuel::new(), out: String::new(), variables: Vec::new(), depth: 0 };
    run.template(&templates.main, Value::Data(data))?;
    Ok(run.out)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

struct Run<'a> {
    templates: &'a Templates,
    fuel: Fuel,
    out: String,
    /// The variables in scope, innermost last, without the variables of a calling template.
    variables: Vec<(&'a str, Value<'a>)>,
    depth: usize,
}

/// Where an evaluation takes place: the line, for errors, and the value of dot.
#[derive(Clone, Copy)]
struct At<'d, 'a> {
    line: usize,
    dot: &'d Value<'a>,
}

fn error<T>(line: usize, message: impl Into<String>) -> Result<T> {
    Err(TemplateError::Evaluate { line, message: message.into() })
}

impl<'a> Run<'a> {
    fn template(&mut self, body: &'a [Node], dot: Value<'a>) -> Result<()> {
        let outer = std::mem::replace(&mut self.variables, vec![("$", dot.clone())]);
        self.list(body, &dot)?;
        self.variables = outer;
        Ok(())
    }

    /// Calls `run` one level deeper. Does not restore the depth after an error, which ends the whole evaluation.
    fn nested<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        limits::check_calls(self.depth)?;
        let result = run(self)?;
        self.depth -= 1;
        Ok(result)
    }

    fn list(&mut self, nodes: &'a [Node], dot: &Value<'a>) -> Result<Flow> {
        self.nested(|run| {
            for node in nodes {
                let flow = run.node(node, dot)?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
            }
            Ok(Flow::Next)
        })
    }

    fn node(&mut self, node: &'a Node, dot: &Value<'a>) -> Result<Flow> {
        self.fuel.spend(0)?;
        match node {
            Node::Text(text) => self.write(text)?,
            Node::Action(pipe) => {
                let value = self.pipe(pipe, dot)?;
                if pipe.variables.is_empty() {
                    self.write(&value.written())?;
                }
            }
            Node::If(branch) => return self.condition(branch, dot, false),
            Node::With(branch) => return self.condition(branch, dot, true),
            Node::Range(branch) => return self.range(branch, dot),
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
            Node::Call { line, name, argument } => {
                let value = match argument {
                    Some(pipe) => self.pipe(pipe, dot)?,
                    None => Value::Nil,
                };
                let templates = self.templates;
                let Some(body) = templates.defined.get(name) else {
                    return error(*line, format!("template {name:?} is not defined"));
                };
                self.template(body, value)?;
            }
        }
        Ok(Flow::Next)
    }

    fn write(&mut self, text: &str) -> Result<()> {
        self.fuel.spend(text.len())?;
        limits::check_length(self.out.len() + text.len())?;
        self.out.push_str(text);
        Ok(())
    }

    fn condition(&mut self, branch: &'a Branch, dot: &Value<'a>, moves_dot: bool) -> Result<Flow> {
        let scope = self.variables.len();
        let value = self.pipe(&branch.pipe, dot)?;
        let flow = if !value.truth() {
            self.list(&branch.otherwise, dot)?
        } else if moves_dot {
            self.list(&branch.body, &value)?
        } else {
            self.list(&branch.body, dot)?
        };
        self.variables.truncate(scope);
        Ok(flow)
    }

    fn range(&mut self, branch: &'a Branch, dot: &Value<'a>) -> Result<Flow> {
        let scope = self.variables.len();
        let pipe = &branch.pipe;
        let count = match self.pipe(pipe, dot)? {
            Value::Int(count) => count,
            Value::Nil => 0,
            other => return error(pipe.line, format!("range requires an integer, got {}", other.type_name())),
        };
        if pipe.variables.len() > 1 {
            return error(pipe.line, "range over an integer takes one variable");
        }
        let inner = self.variables.len();
        for n in 0..count {
            self.fuel.spend(0)?;
            if let Some(name) = pipe.variables.first() {
                self.set(pipe.line, name, Value::Int(n))?;
            }
            let flow = self.list(&branch.body, &Value::Int(n))?;
            self.variables.truncate(inner);
            if flow == Flow::Break {
                break;
            }
        }
        let flow = if count > 0 { Flow::Next } else { self.list(&branch.otherwise, dot)? };
        self.variables.truncate(scope);
        // The else part is outside this range: its break has no effect, and its continue applies to the outer range.
        Ok(if flow == Flow::Continue { flow } else { Flow::Next })
    }

    fn set(&mut self, line: usize, name: &str, value: Value<'a>) -> Result<()> {
        match self.variables.iter_mut().rev().find(|(n, _)| *n == name) {
            Some((_, place)) => {
                *place = value;
                Ok(())
            }
            None => error(line, format!("variable {name} is not defined")),
        }
    }

    fn pipe(&mut self, pipe: &'a Pipe, dot: &Value<'a>) -> Result<Value<'a>> {
        let mut value = None;
        for command in &pipe.commands {
            value = Some(self.command(command, dot, value)?);
        }
        let value = value.unwrap_or(Value::Nil);
        for name in &pipe.variables {
            if pipe.assigns {
                self.set(pipe.line, name, value.clone())?;
            } else {
                self.variables.push((name, value.clone()));
            }
        }
        Ok(value)
    }

    fn command(&mut self, command: &'a Command, dot: &Value<'a>, piped: Option<Value<'a>>) -> Result<Value<'a>> {
        let Some((first, arguments)) = command.operands.split_first() else {
            return error(command.line, "empty command");
        };
        let at = At { line: command.line, dot };
        if let Operand::Function(name) = first {
            return self.function(at, name, arguments, piped);
        }
        if !arguments.is_empty() || piped.is_some() {
            return error(command.line, "only functions take arguments");
        }
        if matches!(first, Operand::Constant(Value::Nil)) {
            return error(command.line, "nil is not a command");
        }
        self.operand(at, first)
    }

    fn function(
        &mut self,
        at: At<'_, 'a>,
        name: &'a str,
        operands: &'a [Operand],
        piped: Option<Value<'a>>,
    ) -> Result<Value<'a>> {
        if matches!(name, "and" | "or") {
            return self.shortcut(at, name == "or", operands, piped);
        }
        let mut arguments: Vec<_> = operands.iter().map(|operand| self.operand(at, operand)).collect::<Result<_>>()?;
        arguments.extend(piped);
        for argument in &arguments {
            self.fuel.spend(argument.cost())?;
        }
        let value =
            functions::call(name, &arguments).map_err(|message| TemplateError::Evaluate { line: at.line, message })?;
        limits::check_length(value.cost())?;
        self.fuel.spend(value.cost())?;
        Ok(value)
    }

    /// Evaluates `and` or `or`: returns the first argument that decides the result, else the last. Skips the rest.
    fn shortcut(
        &mut self,
        at: At<'_, 'a>,
        stops_at: bool,
        operands: &'a [Operand],
        piped: Option<Value<'a>>,
    ) -> Result<Value<'a>> {
        let mut last = None;
        for operand in operands {
            let value = self.operand(at, operand)?;
            if value.truth() == stops_at {
                return Ok(value);
            }
            last = Some(value);
        }
        match piped.or(last) {
            Some(value) => Ok(value),
            None => error(at.line, "the functions and, or require at least one argument"),
        }
    }

    fn operand(&mut self, at: At<'_, 'a>, operand: &'a Operand) -> Result<Value<'a>> {
        let At { line, dot } = at;
        self.fuel.spend(0)?;
        match operand {
            Operand::Dot => Ok(dot.clone()),
            Operand::Constant(value) => {
                if let Value::Str(text) = value {
                    self.fuel.spend(text.len())?;
                }
                Ok(value.clone())
            }
            Operand::Variable(name) => match self.variables.iter().rev().find(|(n, _)| n == name) {
                Some((_, value)) => {
                    self.fuel.spend(value.cost())?;
                    Ok(value.clone())
                }
                None => error(line, format!("variable {name} is not defined")),
            },
            Operand::Function(name) => self.function(at, name, &[], None),
            Operand::Pipe(pipe) => self.nested(|run| run.pipe(pipe, dot)),
            Operand::Fields(inner, path) => fields(line, self.operand(at, inner)?, path),
        }
    }
}

fn fields<'a>(line: usize, value: Value<'a>, path: &[String]) -> Result<Value<'a>> {
    path.iter().try_fold(value, |value, name| match value {
        Value::Data(data) => match data.field(name) {
            Some(text) => Ok(Value::Str(text.to_owned())),
            None => error(line, format!("unknown field .{name}; the data has .{}", data.names().join(", ."))),
        },
        // Inside a template called without an argument, dot is nil, and so are its fields.
        Value::Nil => Ok(Value::Nil),
        other => error(line, format!("a value of type {} has no field .{name}", other.type_name())),
    })
}
