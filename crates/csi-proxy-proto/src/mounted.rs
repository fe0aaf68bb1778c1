//! What `GetVolumeIDFromTargetPath` says of a path where nothing is mounted. The API has no code for it: each generation of csi-proxy has
//! words of its own, and they are all that a client can go by.

/// Of the generation that ran PowerShell, and of this project's: a path, without blanks, stands between them.
const COMMAND: (&str, &str) = ("Get-Item -Path ", ".Target, output: , error: <nil>");
/// Of both for a path that does not exist, and of the generation that asks WMI.
const WORDS: [&str; 4] = [
    "because it does not exist",
    "not a mounted folder",
    "cannot find the file specified",
    "cannot find the path specified",
];

/// Whether the error that `GetVolumeIDFromTargetPath` (or `GetVolumeIDFromMount`) has answered with says that no volume is mounted at the
/// path, whichever csi-proxy it is from. False of every other failure: then nothing is known of the path.
#[must_use]
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

    /// Errors of every generation of csi-proxy that say that nothing is mounted at a path are understood, and no other failure is taken for that.
    #[test]
    fn errors_of_every_generation_say_that_nothing_is_mounted() {
        for text in [
            // Up to 1.2.1, by PowerShell, and what forwarding puts before it.
            r"error getting the volume for the mount C:\x, internal error error getting volume from mount. cmd: (Get-Item -Path $Env:mountpath).Target, output: , error: <nil>",
            "Forward to GetVolumeIDFromTargetPath failed, err=cmd: (Get-Item -Path $Env:mountpath).Target, output: , error: <nil>",
            r"cmd: (Get-Item -Path C:\x).Target, output: Get-Item : Cannot find path 'C:\x' because it does not exist., error: exit status 1",
            // From 1.3.0, by WMI.
            r"error getting the volume for the mount C:\x, internal error not a mounted folder",
            r"CreateFile C:\x: The system cannot find the file specified.",
            r"CreateFile C:\x\y: The system cannot find the path specified.",
            // Ours.
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
