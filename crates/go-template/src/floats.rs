//! Numbers with a fraction, written as Go writes them.

/// The shortest text that reads back as the same number, as Go's `%v`.
pub(super) fn shortest(f: f64) -> String {
    general(f, None)
}

/// `%e`: one digit, the fraction, an exponent of at least two digits.
pub(super) fn exponent(f: f64, precision: usize) -> String {
    match special(f) {
        Some(text) => text,
        None => rewrite_exponent(&format!("{f:.precision$e}")),
    }
}

/// `%f`.
pub(super) fn fixed(f: f64, precision: usize) -> String {
    special(f).unwrap_or_else(|| format!("{f:.precision$}"))
}

/// `%g`: the shorter of the two above; without a precision, as many digits as it takes.
pub(super) fn general(f: f64, precision: Option<usize>) -> String {
    if let Some(text) = special(f) {
        return text;
    }
    let significant = precision.map(|p| p.max(1));
    let scientific = match significant {
        None => format!("{f:e}"),
        Some(digits) => format!("{f:.*e}", digits - 1),
    };
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let mantissa = if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let wide = i64::try_from(digits).unwrap_or(i64::MAX);
    // From which exponent on the scientific form is taken.
    let limit = match significant {
        None => 6,
        Some(p) if p > digits && wide > exponent => wide,
        Some(p) => i64::try_from(p).unwrap_or(i64::MAX),
    };
    if exponent < -4 || exponent >= limit {
        return rewrite_exponent(&format!("{mantissa}e{exponent}"));
    }
    let fraction = usize::try_from(wide - 1 - exponent).unwrap_or(0);
    format!("{f:.fraction$}")
}

fn special(f: f64) -> Option<String> {
    if f.is_nan() {
        Some("NaN".to_owned())
    } else if f.is_infinite() {
        Some(if f > 0.0 { "+Inf" } else { "-Inf" }.to_owned())
    } else {
        None
    }
}

/// Rust writes `1e6`, Go `1e+06`.
fn rewrite_exponent(text: &str) -> String {
    let Some((mantissa, exponent)) = text.split_once('e') else { return text.to_owned() };
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}
