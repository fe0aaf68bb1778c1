//! The env file. A shell sources it to get the simulator's addresses and credentials.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The first line of every env file. A file without it belongs to another program.
const HEADER: &str = "# How to reach a running ebs-sim; written when it is ready.";

/// An env file that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum EnvFileError {
    /// The file exists, and another program wrote it.
    #[error("replace {0}: not the env file of a simulator; choose another --env-file")]
    Foreign(PathBuf),
    /// The system rejected the operation.
    #[error("{step} env file {path}")]
    Io { step: &'static str, path: PathBuf, source: io::Error },
}

/// The path of an env file that does not exist yet. The directory is writable.
#[derive(Debug)]
pub struct EnvFile {
    path: PathBuf,
}

impl EnvFile {
    /// Removes the file of a previous run, so that an existing file means "ready".
    pub fn claim(path: &Path) -> Result<Self, EnvFileError> {
        let file = Self { path: path.to_owned() };
        let temporary = file.temporary();
        create(&temporary).map_err(|source| file.failed("write", source))?;
        fs::remove_file(&temporary).map_err(|source| file.failed("write", source))?;
        match fs::File::open(path) {
            Ok(found) => {
                if !is_ours(found).map_err(|source| file.failed("read", source))? {
                    return Err(EnvFileError::Foreign(path.to_owned()));
                }
                fs::remove_file(path).map_err(|source| file.failed("replace", source))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(file.failed("read", source)),
        }
        Ok(file)
    }

    /// Writes the file atomically, readable only by its owner because it contains credentials.
    pub fn write(&self, env: &BTreeMap<String, String>) -> Result<(), EnvFileError> {
        let temporary = self.temporary();
        let written = create(&temporary).and_then(|mut file| {
            file.write_all(render(env).as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, &self.path)
        });
        written.map_err(|source| {
            let _ = fs::remove_file(&temporary);
            self.failed("write", source)
        })
    }

    /// Removes the file, so that a shell cannot read the addresses of a stopped simulator. The file stays if another
    /// simulator has replaced it with other addresses.
    pub fn remove(&self, env: &BTreeMap<String, String>) {
        let is_ours = fs::read_to_string(&self.path).is_ok_and(|text| text == render(env));
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "env file not removed");
        }
    }

    fn temporary(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{}.new", std::process::id()));
        PathBuf::from(name)
    }

    fn failed(&self, step: &'static str, source: io::Error) -> EnvFileError {
        EnvFileError::Io { step, path: self.path.clone(), source }
    }
}

fn create(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// An empty file counts as an env file, because `mktemp` creates one.
fn is_ours(file: fs::File) -> io::Result<bool> {
    let mut start = Vec::new();
    file.take(HEADER.len() as u64).read_to_end(&mut start)?;
    Ok(start.is_empty() || start == HEADER.as_bytes())
}

/// Returns `export KEY='value'` lines that any POSIX shell reads literally.
fn render(env: &BTreeMap<String, String>) -> String {
    let mut text = format!("{HEADER}\n");
    for (name, value) in env {
        text.push_str(&format!("export {name}='{}'\n", value.replace('\'', r"'\''")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("A".to_owned(), value.to_owned()), ("B".to_owned(), "2".to_owned())])
    }

    #[test]
    fn values_are_quoted_for_the_shell() {
        assert_eq!(render(&env("it's $HOME `x`")), format!("{HEADER}\nexport A='it'\\''s $HOME `x`'\nexport B='2'\n"));
    }

    /// The env file appears only when the simulator is ready. It is complete, and only its owner can read it.
    #[test]
    fn env_file_appears_complete_and_private_when_ready() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("env");
        let file = EnvFile::claim(&path).unwrap();
        assert!(!path.exists());
        file.write(&env("1")).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        EnvFile::claim(&path).unwrap();
        assert!(!path.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// A second simulator with the same `--env-file` has replaced the file in the meantime.
    #[test]
    fn env_file_of_another_simulator_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("env");
        let file = EnvFile::claim(&path).unwrap();
        file.write(&env("1")).unwrap();
        file.remove(&env("2"));
        assert!(path.exists());
        file.remove(&env("1"));
        assert!(!path.exists());
    }

    #[test]
    fn file_of_another_program_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes");
        fs::write(&path, "mine").unwrap();
        assert!(matches!(EnvFile::claim(&path), Err(EnvFileError::Foreign(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }
}
