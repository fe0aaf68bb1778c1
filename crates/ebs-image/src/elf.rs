//! Reads the dependencies of an ELF file, for any machine.

use anyhow::{Context, ensure};
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, elf};

use crate::platform::Platform;

/// The dependencies of a program or library.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Absolute path of the loader, which only programs name.
    pub(crate) loader: Option<String>,
    /// Names of libraries.
    pub(crate) libraries: Vec<String>,
}

/// Returns the dependencies; `None` if the file is not ELF.
///
/// # Errors
/// It is for another machine, or broken.
pub(crate) fn needs(contents: &[u8], platform: Platform) -> anyhow::Result<Option<Needs>> {
    if !contents.starts_with(&elf::ELFMAG) {
        return Ok(None);
    }
    let header = FileHeader64::<Endianness>::parse(contents).context("the ELF header")?;
    let endian = header.endian().context("the ELF header")?;
    let machine = header.e_machine(endian);
    ensure!(machine == platform.machine(), "the program is for another machine (ELF number {machine}) than {platform}");
    let mut needs = Needs::default();
    for segment in header.program_headers(endian, contents).context("program headers")? {
        if let Some(path) = segment.interpreter(endian, contents).context("the loader's path")? {
            needs.loader = Some(String::from_utf8(path.to_vec()).context("the loader's path")?);
        }
    }
    let sections = header.sections(endian, contents).context("sections")?;
    let table = sections.dynamic_table(endian, contents).context("the dynamic section")?;
    for entry in table.iter().filter(|entry| entry.tag == DT_NEEDED) {
        let name = table.string(entry).context("a library's name")?;
        needs.libraries.push(String::from_utf8(name.to_vec()).context("a library's name")?);
    }
    Ok(Some(needs))
}

/// Returns the newest minor version of glibc 2 that a program requires, from the names of its symbol versions.
///
/// # Errors
/// It is not ELF.
pub(crate) fn newest_glibc(contents: &[u8]) -> anyhow::Result<Option<u32>> {
    let header = FileHeader64::<Endianness>::parse(contents).context("the ELF header")?;
    let endian = header.endian().context("the ELF header")?;
    let sections = header.sections(endian, contents).context("sections")?;
    let Some((_, names)) = sections.section_by_name(endian, b".dynstr") else { return Ok(None) };
    Ok(newest_of(names.data(endian, contents).context("names of symbols")?))
}

fn newest_of(names: &[u8]) -> Option<u32> {
    let names = names.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    let minors = names.filter_map(|name| match name {
        // Packed relocations.
        "GLIBC_ABI_DT_RELR" => Some(36),
        name => name.strip_prefix("GLIBC_2.")?.split('.').next()?.parse().ok(),
    });
    minors.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_names_its_loader_and_libraries() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let (here, other) = match std::env::consts::ARCH {
            "x86_64" => (Platform::Amd64, Platform::Arm64),
            _ => (Platform::Arm64, Platform::Amd64),
        };
        let found = needs(&own, here).unwrap().unwrap();
        assert!(found.loader.is_some_and(|loader| loader.contains("ld-linux")));
        assert!(found.libraries.iter().any(|library| library == "libc.so.6"), "{:?}", found.libraries);
        assert!(needs(&own, other).is_err());
        assert_eq!(needs(b"#!/bin/sh\n", here).unwrap(), None);
        assert!(needs(&own[..100], here).is_err());
    }

    #[test]
    fn newest_required_glibc_counts() {
        assert_eq!(newest_of(b"\0read\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.17\0"), Some(34));
        assert_eq!(newest_of(b"\0GLIBC_PRIVATE\0"), None);
        assert_eq!(newest_of(b"\0GLIBC_2.34\0GLIBC_ABI_DT_RELR\0"), Some(36));
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(newest_glibc(&own).unwrap().is_some_and(|minor| minor >= 17));
    }
}
