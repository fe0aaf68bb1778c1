//! Recognises the error of `GetVolumeIDFromTargetPath` for a path at which nothing is mounted. The API has no error
//! code for it, so clients must match the text, which differs between the generations of csi-proxy.

/// The two parts of the error text of PowerShell-based proxies and of this project's proxy. A path without spaces is
/// between the parts.
const COMMAND: (&str, &str) = ("Get-Item -Path ", ".Target, output: , error: <nil>");
/// What PowerShell-based proxies and this project's proxy report for a missing path, and what WMI-based proxies report.
const WORDS: [&str; 4] = [
    "because it does not exist",
    "not a mounted folder",
    "cannot find the file specified",
    "cannot find the path specified",
];

/// Returns true if an error of `GetVolumeIDFromTargetPath` or `GetVolumeIDFromMount`, from any csi-proxy, means that no
/// volume is mounted at the path. After any other error, the state of the path is unknown.
pub fn says_not_mounted(message: &str) -> bool {
    let is_command = message.match_indices(COMMAND.0).any(|(at, before)| {
        let rest = &message[at + before.len()..];
        let path = rest.find(COMMAND.1).map(|end| &rest[..end]);
        path.is_some_and(|path| !path.is_empty() && !path.contains(char::is_whitespace))
    });
    is_command || WORDS.iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_mounted_error_of_every_csi_proxy_release_is_recognised() {
        for text in [
            // csi-proxy up to 1.2.1 uses PowerShell, and prefixes the errors of calls that it forwards.
            r"error getting the volume for the mount C:\x, internal error error getting volume from mount. cmd: (Get-Item -Path $Env:mountpath).Target, output: , error: <nil>",
            "Forward to GetVolumeIDFromTargetPath failed, err=cmd: (Get-Item -Path $Env:mountpath).Target, output: , error: <nil>",
            r"cmd: (Get-Item -Path C:\x).Target, output: Get-Item : Cannot find path 'C:\x' because it does not exist., error: exit status 1",
            // Texts of csi-proxy 1.3.0 and later, which uses WMI.
            r"error getting the volume for the mount C:\x, internal error not a mounted folder",
            r"CreateFile C:\x: The system cannot find the file specified.",
            r"CreateFile C:\x\y: The system cannot find the path specified.",
            // The text of this project's own csi-proxy.
            r"error getting the volume of C:\x: not a mounted folder. cmd: (Get-Item -Path $Env:mountpath).Target, output: , error: <nil>",
            r"cannot find path 'C:\x' because it does not exist",
        ] {
            assert!(says_not_mounted(text), "{text}");
        }
        for text in [
            "",
            "Access is denied.",
            "transport is closing",
            "(Get-Item -Path $Env:mountpath).Target, output: , error: exit status 1",
            r"(Get-Item -Path $Env:mountpath).Target, output: \\?\Volume{1}\, error: <nil>",
            "Get-Item -Path .Target, output: , error: <nil>",
            r"path: C:\x is not within the working directories: [C:\var\lib\kubelet]",
        ] {
            assert!(!says_not_mounted(text), "{text}");
        }
    }
}
