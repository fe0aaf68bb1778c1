//! `printf`, with Go's verbs and Go's way of putting mistakes into the text.

use super::floats;
use super::functions::check_width;
use super::literals::{printable, quote, quote_char};
use super::value::Value;

/// How one value is to be written.
#[derive(Debug, Clone, Default)]
struct Spec {
    sharp: bool,
    plus: bool,
    minus: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// Writes the values as the format says.
pub(super) fn format(format: &str, values: &[Value<'_>]) -> Result<String, String> {
    let mut printer =
        Printer { rest: format.chars().peekable(), values, next: 0, reordered: false, out: String::new() };
    printer.run()?;
    Ok(printer.out)
}

struct Printer<'f, 'v, 'a> {
    rest: std::iter::Peekable<std::str::Chars<'f>>,
    values: &'v [Value<'a>],
    /// The value for the next verb.
    next: usize,
    /// An index such as `[2]` has been used.
    reordered: bool,
    out: String,
}

impl<'a> Printer<'_, '_, 'a> {
    fn run(&mut self) -> Result<(), String> {
        while let Some(c) = self.rest.next() {
            if c == '%' {
                self.verb()?;
            } else {
                self.out.push(c);
            }
            check_width(self.out.len())?;
        }
        if !self.reordered && self.next < self.values.len() {
            let extra: Vec<_> = self.values[self.next..].iter().map(labelled).collect();
            self.out.push_str(&format!("%!(EXTRA {})", extra.join(", ")));
        }
        Ok(())
    }

    fn verb(&mut self) -> Result<(), String> {
        let mut spec = self.flags();
        let mut index = self.index();
        if self.accept('*') {
            match self.star(index)? {
                Some(width) if width < 0 => {
                    spec.minus = true;
                    spec.zero = false;
                    spec.width = Some(check_width(usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX))?);
                }
                Some(width) => spec.width = Some(check_width(usize::try_from(width).unwrap_or(usize::MAX))?),
                None => self.out.push_str("%!(BADWIDTH)"),
            }
            index = Index::None;
        } else {
            spec.width = self.number()?;
        }
        if self.accept('.') {
            let before = self.index();
            if self.accept('*') {
                match self.star(if matches!(before, Index::None) { index } else { before })? {
                    Some(n) if n >= 0 => {
                        spec.precision = Some(check_width(usize::try_from(n).unwrap_or(usize::MAX))?);
                    }
                    Some(_) => {}
                    None => self.out.push_str("%!(BADPREC)"),
                }
                index = Index::None;
            } else {
                spec.precision = Some(self.number()?.unwrap_or(0));
            }
        }
        if matches!(index, Index::None) {
            index = self.index();
        }
        let Some(verb) = self.rest.next() else {
            self.out.push_str("%!(NOVERB)");
            return Ok(());
        };
        if verb == '%' {
            self.out.push('%');
            return Ok(());
        }
        match self.value(index) {
            Ok(Some(value)) => self.out.push_str(&written(&value, verb, &spec)),
            Ok(None) => self.out.push_str(&format!("%!{verb}(MISSING)")),
            Err(()) => self.out.push_str(&format!("%!{verb}(BADINDEX)")),
        }
        Ok(())
    }

    fn accept(&mut self, c: char) -> bool {
        self.rest.next_if_eq(&c).is_some()
    }

    fn flags(&mut self) -> Spec {
        let mut spec = Spec::default();
        while let Some(flag) = self.rest.next_if(|c| "#0+- ".contains(*c)) {
            match flag {
                '#' => spec.sharp = true,
                '0' => spec.zero = true,
                '+' => spec.plus = true,
                '-' => spec.minus = true,
                _ => spec.space = true,
            }
        }
        spec.zero &= !spec.minus;
        spec
    }

    fn number(&mut self) -> Result<Option<usize>, String> {
        let mut number = None;
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit).and_then(|c| c.to_digit(10)) {
            let digit = usize::try_from(digit).unwrap_or(0);
            number = Some(check_width(number.unwrap_or(0) * 10 + digit)?);
        }
        Ok(number)
    }

    /// `[2]`: which value is meant, counted from 1.
    fn index(&mut self) -> Index {
        if !self.accept('[') {
            return Index::None;
        }
        self.reordered = true;
        let mut text = String::new();
        while let Some(c) = self.rest.next_if(|c| *c != ']') {
            text.push(c);
        }
        let closed = self.accept(']');
        match text.parse::<usize>() {
            Ok(n) if closed && n >= 1 && n <= self.values.len() => Index::At(n - 1),
            _ => Index::Bad,
        }
    }

    fn value(&mut self, index: Index) -> Result<Option<Value<'a>>, ()> {
        let at = match index {
            Index::None => self.next,
            Index::At(at) => at,
            Index::Bad => return Err(()),
        };
        let value = self.values.get(at).cloned();
        self.next = (at + 1).min(self.values.len().max(self.next));
        Ok(value)
    }

    /// The number that a `*` stands for; `None` when the value is none.
    fn star(&mut self, index: Index) -> Result<Option<i64>, String> {
        Ok(match self.value(index) {
            Ok(Some(Value::Int(n))) => Some(n),
            _ => None,
        })
    }
}

#[derive(Clone, Copy)]
enum Index {
    None,
    At(usize),
    Bad,
}

/// `type=value`, as mistakes are reported.
fn labelled(value: &Value<'_>) -> String {
    match value {
        Value::Nil => "<nil>".to_owned(),
        other => format!("{}={}", other.type_name(), other.printed()),
    }
}

fn written(value: &Value<'_>, verb: char, spec: &Spec) -> String {
    match (verb, value) {
        ('T', Value::Nil) | ('v', Value::Nil) => padded("<nil>", spec),
        ('T', value) => padded(value.type_name(), spec),
        ('v' | 't', Value::Bool(b)) => padded(&b.to_string(), spec),
        (_, Value::Data(data)) => {
            let named = verb == 'v' && (spec.plus || spec.sharp);
            let fields = data.names().into_iter().zip(data.values()).map(|(name, field)| {
                let text = written(&Value::Str(field.to_owned()), verb, spec);
                if named { format!("{name}:{text}") } else { text }
            });
            format!("&{{{}}}", fields.collect::<Vec<_>>().join(" "))
        }
        (_, Value::Int(n)) => match integer(*n, verb, spec) {
            Some(Written::Text(text)) => padded(&text, spec),
            Some(Written::Number(text)) => number_padded(&text, spec),
            None => bad_verb(value, verb, spec),
        },
        (_, Value::Float(f)) => match float(*f, verb, spec) {
            Some(text) => number_padded(&text, spec),
            None => bad_verb(value, verb, spec),
        },
        (_, Value::Str(s)) => match string(s, verb, spec) {
            Some(text) => padded(&text, spec),
            None => bad_verb(value, verb, spec),
        },
        (_, Value::Nil | Value::Bool(_)) => bad_verb(value, verb, spec),
    }
}

/// A verb that does not fit is named in the text, with the value as `%v` would write it.
fn bad_verb(value: &Value<'_>, verb: char, spec: &Spec) -> String {
    match value {
        Value::Nil => format!("%!{verb}(<nil>)"),
        other => format!("%!{verb}({}={})", other.type_name(), written(other, 'v', spec)),
    }
}

enum Written {
    Text(String),
    Number(String),
}

fn integer(n: i64, verb: char, spec: &Spec) -> Option<Written> {
    let magnitude = n.unsigned_abs();
    let (prefix, digits) = match verb {
        'v' | 'd' => ("", magnitude.to_string()),
        'b' => (if spec.sharp { "0b" } else { "" }, format!("{magnitude:b}")),
        'o' => (if spec.sharp { "0" } else { "" }, format!("{magnitude:o}")),
        'O' => (if spec.sharp { "0o0" } else { "0o" }, format!("{magnitude:o}")),
        'x' => (if spec.sharp { "0x" } else { "" }, format!("{magnitude:x}")),
        'X' => (if spec.sharp { "0X" } else { "" }, format!("{magnitude:X}")),
        'c' | 'q' | 'U' => return Some(Written::Text(character(n, verb, spec))),
        _ => return None,
    };
    let sign = sign(n < 0, spec);
    if let Some(precision) = spec.precision {
        // A precision takes the place of padding with zeros.
        let digits = if precision == 0 && n == 0 { String::new() } else { digits };
        let text = format!("{sign}{prefix}{digits:0>precision$}");
        return Some(Written::Number(padded(&text, &Spec { zero: false, ..spec.clone() })));
    }
    Some(Written::Number(format!("{sign}{prefix}{digits}")))
}

fn character(n: i64, verb: char, spec: &Spec) -> String {
    let c = u32::try_from(n).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
    match verb {
        'c' => c.to_string(),
        'q' => {
            let mut out = String::from("'");
            quote_char(c, '\'', spec.plus, &mut out);
            out.push('\'');
            out
        }
        _ => {
            let name = if spec.sharp && printable(c) { format!(" '{c}'") } else { String::new() };
            format!("U+{n:04X}{name}")
        }
    }
}

fn float(f: f64, verb: char, spec: &Spec) -> Option<String> {
    let magnitude = f.abs();
    let text = match verb {
        'v' | 'g' => floats::general(magnitude, spec.precision),
        'G' => floats::general(magnitude, spec.precision).to_uppercase(),
        'e' => floats::exponent(magnitude, spec.precision.unwrap_or(6)),
        'E' => floats::exponent(magnitude, spec.precision.unwrap_or(6)).to_uppercase(),
        'f' | 'F' => floats::fixed(magnitude, spec.precision.unwrap_or(6)),
        _ => return None,
    };
    Some(format!("{}{text}", sign(f.is_sign_negative(), spec)))
}

fn sign(negative: bool, spec: &Spec) -> &'static str {
    match (negative, spec.plus, spec.space) {
        (true, _, _) => "-",
        (false, true, _) => "+",
        (false, false, true) => " ",
        (false, false, false) => "",
    }
}

fn string(s: &str, verb: char, spec: &Spec) -> Option<String> {
    let cut: String = match spec.precision {
        Some(precision) => s.chars().take(precision).collect(),
        None => s.to_owned(),
    };
    Some(match verb {
        'v' if spec.sharp => quote(&cut, false),
        'v' | 's' => cut,
        'q' if spec.sharp && !cut.contains('`') && cut.chars().all(|c| c == '\t' || printable(c)) => format!("`{cut}`"),
        'q' => quote(&cut, spec.plus),
        'x' | 'X' => hex(s, verb, spec),
        _ => return None,
    })
}

fn hex(s: &str, verb: char, spec: &Spec) -> String {
    let bytes = &s.as_bytes()[..spec.precision.unwrap_or(s.len()).min(s.len())];
    let prefix = match (spec.sharp && !bytes.is_empty(), verb) {
        (false, _) => "",
        (true, 'x') => "0x",
        (true, _) => "0X",
    };
    let digits: Vec<_> =
        bytes.iter().map(|b| if verb == 'x' { format!("{b:02x}") } else { format!("{b:02X}") }).collect();
    if spec.space {
        digits.iter().map(|d| format!("{prefix}{d}")).collect::<Vec<_>>().join(" ")
    } else {
        format!("{prefix}{}", digits.concat())
    }
}

/// A number: zeros go between sign and digits.
fn number_padded(text: &str, spec: &Spec) -> String {
    match spec.width {
        Some(width) if spec.zero => {
            let signs = text.len() - text.trim_start_matches(['+', '-', ' ']).len();
            let (sign, digits) = text.split_at(signs);
            let digits_width = width.saturating_sub(signs);
            format!("{sign}{digits:0>digits_width$}")
        }
        _ => padded(text, spec),
    }
}

fn padded(text: &str, spec: &Spec) -> String {
    let with = if spec.zero { '0' } else { ' ' };
    let missing = spec.width.unwrap_or(0).saturating_sub(text.chars().count());
    let padding: String = std::iter::repeat_n(with, missing).collect();
    if spec.minus { format!("{text}{padding}") } else { format!("{padding}{text}") }
}
