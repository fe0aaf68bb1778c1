//! Constants: numbers, characters and strings as Go writes them.

/// A number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

/// Reads a number: decimal, hexadecimal, octal, binary, with underscores, or with a fraction or exponent.
pub(super) fn number(text: &str) -> Result<Number, String> {
    let wrong = || format!("{text} is no number");
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, body) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        _ => (10, lower.as_str()),
    };
    if radix == 10 && body.contains(['.', 'e']) {
        let plain = without_underscores(body, false).ok_or_else(wrong)?;
        if !plain.bytes().any(|b| b.is_ascii_digit()) || plain.starts_with('e') {
            return Err(wrong());
        }
        let f: f64 = plain.parse().map_err(|_| wrong())?;
        if !f.is_finite() {
            return Err(format!("{text} is too large"));
        }
        return Ok(Number::Float(if negative { -f } else { f }));
    }
    let plain = without_underscores(body, radix != 10 || body.starts_with('0')).ok_or_else(wrong)?;
    // A leading zero has always meant octal.
    let (radix, plain) = match plain.strip_prefix('0') {
        Some(octal) if radix == 10 && !octal.is_empty() => (8, octal),
        _ => (radix, plain.as_str()),
    };
    if plain.is_empty() || !plain.chars().all(|c| c.is_digit(radix)) {
        return Err(wrong());
    }
    let signed = if negative { format!("-{plain}") } else { plain.to_owned() };
    i64::from_str_radix(&signed, radix).map(Number::Int).map_err(|_| format!("{text} does not fit into 64 bits"))
}

/// Underscores may stand between digits, and after a prefix.
fn without_underscores(body: &str, after_prefix: bool) -> Option<String> {
    let bytes = body.as_bytes();
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_hexdigit);
    for (i, _) in body.match_indices('_') {
        let before = if i == 0 { after_prefix } else { digit(i - 1) };
        if !before || !digit(i + 1) {
            return None;
        }
    }
    Some(body.replace('_', ""))
}

/// The text between the quotes of a string or character constant, with its escapes resolved. `quote` is the quote
/// that must be escaped.
pub(super) fn unescape(body: &str, quote: char) -> Result<String, String> {
    let mut out = String::with_capacity(body.len());
    let mut bytes: Vec<u8> = Vec::new();
    let mut rest = body.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            flush(&mut bytes, &mut out)?;
            out.push(c);
            continue;
        }
        match escape(&mut rest, quote)? {
            Escape::Char(c) => {
                flush(&mut bytes, &mut out)?;
                out.push(c);
            }
            Escape::Byte(b) => bytes.push(b),
        }
    }
    flush(&mut bytes, &mut out)?;
    Ok(out)
}

enum Escape {
    Char(char),
    /// `\x41` and `\101` are bytes, several of which may make a character.
    Byte(u8),
}

fn escape(rest: &mut std::str::Chars<'_>, quote: char) -> Result<Escape, String> {
    let c = rest.next().ok_or("a backslash at the end of a constant")?;
    Ok(match c {
        'a' => Escape::Char('\x07'),
        'b' => Escape::Char('\x08'),
        'f' => Escape::Char('\x0c'),
        'n' => Escape::Char('\n'),
        'r' => Escape::Char('\r'),
        't' => Escape::Char('\t'),
        'v' => Escape::Char('\x0b'),
        '\\' => Escape::Char('\\'),
        c if c == quote => Escape::Char(c),
        'x' => Escape::Byte(digits(rest, None, 2, 16)?.try_into().map_err(|_| "a byte above 255")?),
        '0'..='7' => Escape::Byte(digits(rest, Some(c), 2, 8)?.try_into().map_err(|_| "a byte above 255")?),
        'u' => Escape::Char(char::from_u32(digits(rest, None, 4, 16)?).ok_or("an escape that is no character")?),
        'U' => Escape::Char(char::from_u32(digits(rest, None, 8, 16)?).ok_or("an escape that is no character")?),
        other => return Err(format!("unknown escape \\{other}")),
    })
}

fn digits(rest: &mut std::str::Chars<'_>, first: Option<char>, count: usize, radix: u32) -> Result<u32, String> {
    let text: String = first.into_iter().chain(rest.by_ref().take(count)).collect();
    if text.chars().count() < count + usize::from(first.is_some()) || !text.chars().all(|c| c.is_digit(radix)) {
        return Err("an escape with too few digits".to_owned());
    }
    u32::from_str_radix(&text, radix).map_err(|_| "an escape that is too large".to_owned())
}

fn flush(bytes: &mut Vec<u8>, out: &mut String) -> Result<(), String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "bytes that are no UTF-8")?;
    out.push_str(text);
    bytes.clear();
    Ok(())
}

/// The text as a constant in double quotes; with `ascii`, all else escaped.
pub(super) fn quote(text: &str, ascii: bool) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        quote_char(c, '"', ascii, &mut out);
    }
    out.push('"');
    out
}

/// One character of a constant.
pub(super) fn quote_char(c: char, quote: char, ascii: bool, out: &mut String) {
    match c {
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        '\\' => out.push_str("\\\\"),
        c if c == quote => {
            out.push('\\');
            out.push(c);
        }
        ' '..='~' => out.push(c),
        c if u32::from(c) < 0x20 || c == '\x7f' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
        c if !ascii && printable(c) => out.push(c),
        c if u32::from(c) <= 0xffff => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        c => out.push_str(&format!("\\U{:08x}", u32::from(c))),
    }
}

/// What can be seen: letters, marks, digits, signs; no controls and no spaces but the plain one.
pub(super) fn printable(c: char) -> bool {
    c == ' '
        || (!c.is_control()
            && !c.is_whitespace()
            && !matches!(u32::from(c), 0xad | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f | 0xe000..=0xf8ff | 0xfeff | 0xfff0..=0xfffb | 0xe0000..))
}
