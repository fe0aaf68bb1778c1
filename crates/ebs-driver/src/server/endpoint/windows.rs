//! Parses socket paths on Windows: `unix:/csi/csi.sock`, `unix://C:\csi\csi.sock`, and doubled backslashes from YAML.

use std::path::PathBuf;

use super::{Endpoint, EndpointError, short_enough};

/// Parses the part after `unix:`, with or without `//`. The default drive is the drive of the process.
pub(super) fn unix(text: &str, rest: &str) -> Result<Endpoint, EndpointError> {
    let no_path = || EndpointError::NoPath(text.to_owned());
    let address = rest.strip_prefix("//").unwrap_or(rest).replace('/', r"\");
    let is_drive = |part: &str| part.len() == 2 && part.ends_with(':') && part.as_bytes()[0].is_ascii_alphabetic();
    let mut parts: Vec<&str> = address.split('\\').filter(|part| !part.is_empty()).collect();
    // `unix://csi/csi.sock` means the path `/csi/csi.sock`: the URL's host is the first part of the path.
    let drive = match parts.first() {
        Some(first) if is_drive(first) => parts.remove(0),
        _ => "",
    };
    let is_plain = |part: &&str| *part != "." && *part != ".." && !part.contains(':');
    if parts.is_empty() || address.ends_with('\\') || !parts.iter().all(is_plain) {
        return Err(no_path());
    }
    short_enough(PathBuf::from(format!(r"{drive}\{}", parts.join(r"\"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::MAX_SOCKET_PATH;

    fn read(rest: &str) -> Result<String, EndpointError> {
        unix(&format!("unix:{rest}"), rest).map(|endpoint| match endpoint {
            Endpoint::Unix(path) => path.display().to_string(),
            Endpoint::Tcp(address) => address.to_string(),
        })
    }

    /// The path may have a drive, and uses either separator, doubled or not.
    #[test]
    fn socket_path_is_parsed_in_every_form_used_in_manifests() {
        let plugin = r"C:\var\lib\kubelet\plugins\ebs.csi.aws.com\csi.sock";
        for (rest, path) in [
            ("/csi/csi.sock", r"\csi\csi.sock"),
            ("///csi/csi.sock", r"\csi\csi.sock"),
            ("//csi/csi.sock", r"\csi\csi.sock"),
            (r"//C:\csi\csi.sock", r"C:\csi\csi.sock"),
            (r"//C:\\var\\lib\\kubelet\\plugins\\ebs.csi.aws.com\\csi.sock", plugin),
            (r"//C:/var\lib//kubelet/plugins\ebs.csi.aws.com/csi.sock", plugin),
        ] {
            assert_eq!(read(rest).as_deref(), Ok(path), "{rest}");
        }
        for rest in ["", "//", "///", r"//C:\", r"//C:\csi\", r"//C:\csi\..\x", r"//C:\a:b", "//C:"] {
            assert!(matches!(read(rest), Err(EndpointError::NoPath(_))), "{rest}");
        }
        let long = format!(r"//C:\{}", "x".repeat(MAX_SOCKET_PATH));
        assert!(matches!(read(&long), Err(EndpointError::TooLong { .. })));
    }
}
