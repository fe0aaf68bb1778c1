pub(super) fn integer(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let decimal = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    // Go reads a leading zero as octal, so 017 would be 15. Reject such a number.
    if !decimal || (digits.len() > 1 && digits.starts_with('0')) {
        return Err(format!("unsupported number {text}: must be a decimal integer"));
    }
    text.parse().map_err(|_| format!("number {text} exceeds 64 bits"))
}

pub(super) fn unescape(body: &str) -> Result<String, String> {
    let mut out = String::with_capacity(body.len());
    let mut rest = body.chars();
    while let Some(c) = rest.next() {
        out.push(if c == '\\' { escape(&mut rest)? } else { c });
    }
    Ok(out)
}

fn escape(rest: &mut std::str::Chars<'_>) -> Result<char, String> {
    Ok(match rest.next().ok_or("backslash at the end of a constant")? {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        c @ ('\\' | '"') => c,
        'u' => character(rest, 4)?,
        'U' => character(rest, 8)?,
        other => return Err(format!("unsupported escape \\{other}")),
    })
}

fn character(rest: &mut std::str::Chars<'_>, digits: usize) -> Result<char, String> {
    let text: String = rest.by_ref().take(digits).collect();
    if text.len() < digits || !text.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err("escape has too few digits".to_owned());
    }
    let code = u32::from_str_radix(&text, 16).ok();
    code.and_then(char::from_u32).ok_or_else(|| format!("\\u{text} is not a character"))
}

pub(super) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            '\\' | '"' => out.extend(['\\', c]),
            c if c < ' ' || c == '\x7f' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if printable(c) => out.push(c),
            c if u32::from(c) <= 0xffff => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

/// Returns whether the character is visible or the plain space. Letters, marks, digits and symbols are visible.
fn printable(c: char) -> bool {
    c == ' '
        || (!c.is_control()
            && !c.is_whitespace()
            && !matches!(u32::from(c), 0xad | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f | 0xe000..=0xf8ff | 0xfeff | 0xfff0..=0xfffb | 0xe0000..))
}
