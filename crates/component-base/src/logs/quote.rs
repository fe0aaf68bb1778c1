//! Quotes text for a log line. Whatever the text contains, it cannot end its quotes or its line.

/// Returns the text in double quotes with Go's escapes for line ends, control characters and invisible characters.
pub(super) fn go(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c => shown(&mut quoted, c),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns the text escaped but unquoted, for fixed texts only: readers cannot tell escapes from backslashes.
pub(super) fn printed(text: &str) -> String {
    let mut printed = String::with_capacity(text.len());
    text.chars().for_each(|c| shown(&mut printed, c));
    printed
}

/// Appends the character, or Go's escape sequence if the character is invisible.
fn shown(text: &mut String, c: char) {
    let code = u32::from(c);
    match c {
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        '\u{7}' => text.push_str("\\a"),
        '\u{8}' => text.push_str("\\b"),
        '\u{b}' => text.push_str("\\v"),
        '\u{c}' => text.push_str("\\f"),
        c if is_shown(c) => text.push(c),
        '\0'..='\u{7f}' => text.push_str(&format!("\\x{code:02x}")),
        '\u{80}'..='\u{ffff}' => text.push_str(&format!("\\u{code:04x}")),
        _ => text.push_str(&format!("\\U{code:08x}")),
    }
}

/// Returns the text as a JSON string. Also escapes DEL, line separators and invisible characters, which JSON permits.
pub(super) fn json(text: &str) -> String {
    escaped_json(&serde_json::Value::String(text.to_owned()).to_string())
}

/// Escapes control and invisible characters in a JSON document, where they can occur only inside strings.
pub fn escaped_json(document: &str) -> String {
    let mut safe = String::with_capacity(document.len());
    for c in document.chars() {
        if is_shown(c) {
            safe.push(c);
            continue;
        }
        c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| safe.push_str(&format!("\\u{unit:04x}")));
    }
    safe
}

/// Returns true for a letter, digit, symbol or mark, and for the plain space.
fn is_shown(c: char) -> bool {
    match c {
        '"' | '\'' | '\\' => true,
        ' '..='~' => true,
        c if c.is_ascii() => false,
        c => c.escape_debug().count() == 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_quoted_as_in_go() {
        for (text, quoted) in [
            ("plain", r#""plain""#),
            ("it's \"so\" \\", r#""it's \"so\" \\""#),
            ("a\nb\r\t", r#""a\nb\r\t""#),
            ("\u{7}\u{8}\u{b}\u{c}\u{0}\u{1b}[31m\u{7f}", r#""\a\b\v\f\x00\x1b[31m\x7f""#),
            ("größe 日本 €", r#""größe 日本 €""#),
            ("\u{85}\u{a0}\u{202e}\u{2028}", r#""\u0085\u00a0\u202e\u2028""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(go(text), quoted, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn quoted_json_preserves_text_without_control_characters(text in any::<String>()) {
            let quoted = json(&text);
            prop_assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text);
            prop_assert!(quoted.chars().all(is_shown));
        }
    }
}
