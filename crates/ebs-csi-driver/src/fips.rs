//! Handles `GODEBUG=fips140=on`, with which users request validated cryptography from Go's reference driver.

const NOT_VALIDATED: &str = "GODEBUG requests FIPS mode (fips140=on or only): this build has no validated cryptographic module; remove the \
     setting (AWS_USE_FIPS_ENDPOINT=true alone selects the FIPS endpoints of AWS), or use a build with a validated module";

/// Rejects a request for FIPS mode anywhere in the value. Ignores other settings, which concern only Go programs.
pub(crate) fn check(godebug: Option<&str>) -> Result<(), &'static str> {
    let mut settings = godebug.unwrap_or_default().split(',').filter_map(|setting| setting.split_once('='));
    let asks = settings.any(|(key, value)| key.trim() == "fips140" && matches!(value.trim(), "on" | "only"));
    if asks { Err(NOT_VALIDATED) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `fips140=on` or `only` anywhere in `GODEBUG` is rejected. Other values are accepted.
    #[test]
    fn godebug_with_fips_mode_is_rejected() {
        for asked in ["fips140=on", "fips140=only", "x=1,fips140=on", "fips140=on,y=2", " fips140 = only "] {
            assert_eq!(check(Some(asked)), Err(NOT_VALIDATED), "{asked}");
        }
        for fine in ["", "fips140=off", "fips140=debug", "netdns=go", "fips140", "xfips140=on", "fips140=ON"] {
            assert_eq!(check(Some(fine)), Ok(()), "{fine}");
        }
        assert_eq!(check(None), Ok(()));
    }
}
