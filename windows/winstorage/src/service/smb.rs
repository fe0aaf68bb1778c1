//! Operations on SMB shares.

use tracing::{info, warn};

use crate::host::{MappingStatus, NewMapping};
use crate::types::Secret;
use crate::{Storage, StorageError};

#[derive(Debug, Clone)]
pub struct SmbMapping {
    /// `\\host\share`, possibly with directories below it, and possibly with `/` as separator.
    pub remote_path: String,
    /// The path of the link. If it is empty, no link is created.
    pub local_path: String,
    /// The user. If it is empty, the machine's own credentials are used.
    pub username: String,
    pub password: Secret,
}

/// A share, and the path in it that a client specified.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Remote {
    /// `\\host\share` in lower case.
    root: String,
    /// The complete path, without the leading `\\` and a trailing `\`.
    full: String,
}

impl Storage {
    /// Maps a share for the whole machine, and creates a link to it. Keeps a mapping that works, and replaces a broken
    /// one.
    pub fn new_smb_global_mapping(&self, wanted: &SmbMapping) -> Result<(), StorageError> {
        let remote = remote(&wanted.remote_path)?;
        let local = match wanted.local_path.as_str() {
            "" => None,
            local => Some(self.paths.check(local)?),
        };
        if !self.is_mapped(&remote.root)? {
            let credential = credential(&wanted.username, &wanted.password);
            let require_privacy = self.policy.require_privacy;
            self.host.create_mapping(&NewMapping { root: remote.root.clone(), credential, require_privacy })?;
        }
        let Some(local) = local else { return Ok(()) };
        let target = format!(r"\\?\UNC\{}\", remote.full);
        self.link(&local, &target, true).map_err(|cause| StorageError::ShareLink {
            local: local.path.to_string(),
            remote: format!(r"\\{}", remote.full),
            cause: Box::new(cause),
        })
    }

    /// Removes a mapping. Succeeds if the mapping does not exist.
    pub fn remove_smb_global_mapping(&self, remote_path: &str) -> Result<(), StorageError> {
        let remote = remote(remote_path)?;
        let Some(mapping) = self.host.mapping(&remote.root)? else {
            info!(share = remote.root, "share is not mapped, nothing to remove");
            return Ok(());
        };
        Ok(self.host.remove_mapping(&mapping)?)
    }

    /// Returns whether a working mapping exists. Removes a broken mapping.
    fn is_mapped(&self, root: &str) -> Result<bool, StorageError> {
        let mapping = match self.host.mapping(root) {
            Ok(Some(mapping)) if mapping.status == MappingStatus::Ok => mapping,
            Ok(_) => return Ok(false),
            Err(error) => {
                warn!(share = root, %error, "failed to check whether the share is mapped, mapping it again");
                return Ok(false);
            }
        };
        match self.host.native().path_valid(root) {
            Ok(true) => return Ok(true),
            Ok(false) => warn!(share = root, "share is mapped to a missing target, mapping it again"),
            Err(error) => warn!(share = root, %error, "share is mapped but unreachable, mapping it again"),
        }
        self.host.remove_mapping(&mapping)?;
        Ok(false)
    }
}

fn remote(path: &str) -> Result<Remote, StorageError> {
    if path.is_empty() {
        return Err(StorageError::Empty("remote path is empty"));
    }
    let invalid = || StorageError::RemotePath(path.to_owned());
    let plain = path.replace('/', r"\");
    let parts: Vec<&str> = plain.split('\\').filter(|part| !part.is_empty()).collect();
    let [host, share, ..] = parts[..] else { return Err(invalid()) };
    // Reject names that no share can have, and names that would lead out of the share or into the device namespace.
    let is_odd = |part: &&str| [".", "..", "?"].contains(part) || part.contains(['"', ':', '*', '?', '<', '>', '|']);
    let is_control = |part: &&str| part.chars().any(char::is_control);
    if parts.iter().any(|part| is_odd(part) || is_control(part)) {
        return Err(invalid());
    }
    Ok(Remote { root: format!(r"\\{}\{}", host.to_lowercase(), share.to_lowercase()), full: parts.join(r"\") })
}

/// Returns `user:password`, with a `\` before each `\` or `:` in the user's name.
fn credential(username: &str, password: &Secret) -> Option<Secret> {
    if username.is_empty() {
        return None;
    }
    let user = username.replace('\\', r"\\").replace(':', r"\:");
    Some(Secret::new(format!("{user}:{}", password.expose())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smb_share_is_the_first_two_components_in_lower_case() {
        let root = |path: &str| remote(path).map(|remote| remote.root).map_err(|error| error.to_string());
        assert_eq!(root(r"\\Host\Path\sub\"), Ok(r"\\host\path".to_owned()));
        assert_eq!(root("//Host/Path"), Ok(r"\\host\path".to_owned()));
        assert_eq!(root(r"\\host\\share\"), Ok(r"\\host\share".to_owned()));
        assert_eq!(root("hostname"), Err("remote path (hostname) is invalid".to_owned()));
        assert_eq!(root(r"\\host\"), Err(r"remote path (\\host\) is invalid".to_owned()));
        assert_eq!(root(""), Err("remote path is empty".to_owned()));
    }

    #[test]
    fn remote_path_that_is_not_a_share_is_rejected() {
        for path in [r"\\?\C:\x", r"\\.\pipe\x", r"\\host\share\..\..\other", r"\\host\a:b", "\\\\host\\a\u{1}b"] {
            assert!(remote(path).is_err(), "{path}");
        }
    }

    #[test]
    fn credential_escapes_the_user_name_but_not_the_password() {
        let text = |user: &str| credential(user, &Secret::new(r"p:\w")).map(|secret| secret.expose().to_owned());
        assert_eq!(text(r"corp\eve:1"), Some(r"corp\\eve\:1:p:\w".to_owned()));
        assert_eq!(text("eve"), Some(r"eve:p:\w".to_owned()));
        assert_eq!(text(""), None);
    }
}
