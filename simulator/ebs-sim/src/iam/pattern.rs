//! Strings with wildcards and variables, and ARNs that consist of such strings.

use super::key::Key;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Char(char),
    One,
    Any,
    /// `${aws:PrincipalTag/team}`
    Variable(Key),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    pieces: Vec<Piece>,
    has_variables: bool,
}

/// Looks up a variable. Returns `None` when the request has no value for it.
pub(super) type Lookup<'a> = &'a dyn Fn(&Key) -> Option<String>;

impl Pattern {
    /// Parses a pattern. `*` and `?` are literal without `wildcards`; `${*}`, `${?}` and `${$}` always are.
    pub(super) fn parse(text: &str, wildcards: bool) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("${") {
                let (name, tail) =
                    after.split_once('}').ok_or_else(|| format!("the variable in {text:?} has no closing brace"))?;
                pieces.push(match name {
                    "*" => Piece::Char('*'),
                    "?" => Piece::Char('?'),
                    "$" => Piece::Char('$'),
                    name => Piece::Variable(Key::parse(name)?.single(name)?),
                });
                rest = tail;
                continue;
            }
            pieces.push(match c {
                '*' if wildcards => Piece::Any,
                '?' if wildcards => Piece::One,
                c => Piece::Char(c),
            });
            rest = &rest[c.len_utf8()..];
        }
        let has_variables = pieces.iter().any(|piece| matches!(piece, Piece::Variable(_)));
        Ok(Self { pieces, has_variables })
    }

    /// Returns whether the pattern matches the whole text, or `None` when a variable has no value.
    pub(super) fn fits(&self, text: &str, ignore_case: bool, lookup: Lookup<'_>) -> Option<bool> {
        if !self.has_variables {
            return Some(fits(&self.pieces, text, ignore_case));
        }
        let mut known = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            match piece {
                Piece::Variable(key) => known.extend(lookup(key)?.chars().map(Piece::Char)),
                piece => known.push(piece.clone()),
            }
        }
        Some(fits(&known, text, ignore_case))
    }
}

/// Matches a pattern, backtracking only to the last `*`.
fn fits(pieces: &[Piece], text: &str, ignore_case: bool) -> bool {
    let (mut at, mut rest) = (0, text);
    let mut retry: Option<(usize, &str)> = None;
    loop {
        let next = rest.chars().next();
        let step = match (pieces.get(at), next) {
            (None, None) => return true,
            (Some(Piece::Any), _) => {
                retry = Some((at + 1, rest));
                at += 1;
                continue;
            }
            (Some(Piece::One), Some(c)) => Some(c),
            (Some(Piece::Char(wanted)), Some(c)) if same(*wanted, c, ignore_case) => Some(c),
            _ => None,
        };
        if let Some(c) = step {
            at += 1;
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let Some((after_star, from)) = retry else { return false };
        let Some(skipped) = from.chars().next() else { return false };
        let from = &from[skipped.len_utf8()..];
        retry = Some((after_star, from));
        (at, rest) = (after_star, from);
    }
}

/// Returns whether a filter's pattern can match more than its own text.
pub(crate) fn has_wildcard(pattern: &str) -> bool {
    pattern.contains(['*', '?', '\\'])
}

/// Returns whether a filter's pattern matches the whole text: `*` any text, `?` any character, `\` escapes.
pub(crate) fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let mut rest = pattern.chars();
    let pieces = std::iter::from_fn(|| {
        Some(match rest.next()? {
            '*' => Piece::Any,
            '?' => Piece::One,
            '\\' => Piece::Char(rest.next().unwrap_or('\\')),
            c => Piece::Char(c),
        })
    });
    fits(&pieces.collect::<Vec<_>>(), text, false)
}

fn same(a: char, b: char, ignore_case: bool) -> bool {
    a == b || (ignore_case && a.eq_ignore_ascii_case(&b))
}

/// A resource of a statement: `*`, or an ARN whose parts are patterns. A wildcard matches a colon only in the last
/// part, which names the resource itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ArnPattern {
    Everything,
    Parts(Vec<Pattern>),
}

/// `arn:partition:service:region:account:resource`
const ARN_PARTS: usize = 6;

impl ArnPattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Everything);
        }
        let parts = arn_parts(text);
        if parts.len() != ARN_PARTS || parts[0] != "arn" {
            return Err(format!("{text:?} is not \"*\" or an ARN (arn:partition:service:region:account:resource)"));
        }
        let parts = parts.into_iter().map(|part| Pattern::parse(part, true)).collect::<Result<_, _>>()?;
        Ok(Self::Parts(parts))
    }

    /// Returns whether the pattern covers the resource. A pattern with an undefined variable covers no resource.
    pub(super) fn covers(&self, arn: &str, lookup: Lookup<'_>) -> bool {
        match self {
            Self::Everything => true,
            Self::Parts(parts) => {
                let given = arn_parts(arn);
                given.len() == parts.len()
                    && parts.iter().zip(given).all(|(part, text)| part.fits(text, false, lookup) == Some(true))
            }
        }
    }
}

/// Splits at colons outside of `${…}`, into at most six parts.
fn arn_parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut in_variable) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '{' if text[..at].ends_with('$') => in_variable = true,
            '}' => in_variable = false,
            ':' if !in_variable && parts.len() + 1 < ARN_PARTS => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}
