//! `printf`, with the verbs that short values need. Where Go writes an error into the text (`%!d(string=x)`), this
//! module returns an error, because such a text is useless as a value.

use super::limits;
use super::literals::quote;
use super::value::Value;

const SUPPORTED: &str = "use %s, %v, %q, %d, %t or %%, with the flags - and 0, a width, and a precision for \
                         %s, %v and %q";

struct Verb {
    letter: char,
    left: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
}

enum Piece<'f> {
    Text(&'f str),
    Verb(Verb),
}

/// Rejects a format that no values could make valid, because it uses an unsupported feature.
pub(super) fn check(format: &str) -> Result<(), String> {
    pieces(format).map(drop)
}

pub(super) fn format(format: &str, values: &[Value<'_>]) -> Result<String, String> {
    let mut values = values.iter();
    let mut out = String::new();
    for piece in pieces(format)? {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Verb(verb) => {
                let value = values.next().ok_or_else(|| format!("printf: %{} has no value", verb.letter))?;
                out.push_str(&verb.write(value)?);
            }
        }
        if out.len() > limits::TEXT {
            return Err(format!("printf: result is longer than {} bytes", limits::TEXT));
        }
    }
    match values.len() {
        0 => Ok(out),
        left => Err(format!("printf: missing verb for the last {left} values")),
    }
}

fn pieces(format: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = format;
    while let Some((text, after)) = rest.split_once('%') {
        pieces.push(Piece::Text(text));
        rest = if let Some(after) = after.strip_prefix('%') {
            pieces.push(Piece::Text("%"));
            after
        } else {
            let (verb, after) = Verb::read(after)?;
            pieces.push(Piece::Verb(verb));
            after
        };
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

impl Verb {
    /// Parses the verb that follows a percent sign. Also returns the rest of the format.
    fn read(text: &str) -> Result<(Self, &str), String> {
        let after_flags = text.trim_start_matches(['-', '0']);
        let flags = &text[..text.len() - after_flags.len()];
        let (width, rest) = number(after_flags)?;
        let (precision, rest) = match rest.strip_prefix('.') {
            Some(after_point) => number(after_point).map(|(precision, rest)| (Some(precision), rest))?,
            None => (None, rest),
        };
        let letter = rest.chars().next().ok_or("printf: incomplete verb at the end of the format")?;
        let takes_precision = matches!(letter, 's' | 'v' | 'q');
        if !(takes_precision || matches!(letter, 'd' | 't') && precision.is_none()) {
            let point = if precision.is_some() { "." } else { "" };
            return Err(format!("printf: %{point}{letter} is unsupported; {SUPPORTED}"));
        }
        let left = flags.contains('-');
        let zeros = !left && flags.contains('0');
        Ok((Self { letter, left, zeros, width, precision }, &rest[1..]))
    }

    fn write(&self, value: &Value<'_>) -> Result<String, String> {
        let cut = |s: &str| s.chars().take(self.precision.unwrap_or(usize::MAX)).collect::<String>();
        let text = match (self.letter, value) {
            ('s' | 'v', Value::Str(s)) => cut(s),
            ('q', Value::Str(s)) => quote(&cut(s)),
            ('v', other) if self.precision.is_none() => other.printed(),
            ('d', Value::Int(n)) => n.to_string(),
            ('t', Value::Bool(b)) => b.to_string(),
            (letter, other) => {
                return Err(format!("printf: %{letter} does not accept a value of type {}", other.type_name()));
            }
        };
        let missing = self.width.saturating_sub(text.chars().count());
        Ok(if self.left {
            format!("{text}{}", " ".repeat(missing))
        } else if self.zeros {
            // Go inserts zeros between the sign of a number and its digits.
            let digits = if matches!(value, Value::Int(_)) { text.trim_start_matches('-') } else { &text };
            let sign = &text[..text.len() - digits.len()];
            format!("{sign}{}{digits}", "0".repeat(missing))
        } else {
            format!("{}{text}", " ".repeat(missing))
        })
    }
}

/// Parses the number at the start of the text, or returns 0 if the text starts differently. Also returns the rest of the text.
fn number(text: &str) -> Result<(usize, &str), String> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &text[..text.len() - rest.len()];
    match digits.parse() {
        _ if digits.is_empty() => Ok((0, rest)),
        Ok(n) if n <= limits::TEXT => Ok((n, rest)),
        _ => Err(format!("printf: width or precision {digits} exceeds {}", limits::TEXT)),
    }
}
