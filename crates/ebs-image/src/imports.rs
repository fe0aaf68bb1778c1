//! Reads the imports of a Windows program from its file. Programs of Windows nodes start no other programs, and the
//! release proves that: a function that starts a process must be imported, or looked up by name at run time. So neither
//! the imports nor any other part of the file may name one. Each call lists the known exceptions of its program.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use object::LittleEndian;
use object::pe::{ImageNtHeaders64, ImageThunkData64};
use object::read::pe::{Import, PeFile64};

/// Functions that start a process, in lower case. Longer names, like `CreateProcessAsUserW`, count too.
const STARTS: [&str; 12] = [
    "createprocess",
    "shellexec",
    "winexec",
    "loadmodule",
    "ntcreateuserprocess",
    "zwcreateuserprocess",
    "ntcreateprocess",
    "zwcreateprocess",
    "rtlcreateuserprocess",
    "rtlcreateprocess",
    "wdtplaunchapplication",
    "pcwstartprocess",
];
/// Functions of the C library, as whole names.
const OF_C: [&str; 4] = ["system", "_wsystem", "_popen", "_wpopen"];
/// Prefixes of further C functions, like `_wspawnlp`.
const FAMILIES_OF_C: [&str; 6] = ["_spawn", "_wspawn", "_exec", "_wexec", "spawn", "exec"];

/// Parts of names that could be looked up at run time.
const NAMES: [&str; 4] = ["createprocess", "createuserprocess", "shellexecute", "winexec"];

/// The imports of a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Imports {
    /// Libraries, in lower case.
    pub libraries: BTreeSet<String>,
    /// Functions, as `kernel32.dll!ReadFile`. Those without a name have their number.
    pub functions: BTreeSet<String>,
}

/// Rejects a program that can start others by any function except `known` ones, like `CreateProcessW`. Returns the
/// imports.
///
/// # Errors
/// The error names the imports or texts. A known function that is not imported is also an error, and so are unreadable
/// imports.
pub fn of_one_that_starts_nothing(program: &[u8], known: &[String]) -> anyhow::Result<Imports> {
    let imports = imports(program)?;
    imports.start_nothing(known)?;
    let is_known = |name: &str| known.iter().any(|known| known.to_lowercase().starts_with(name));
    let named: Vec<&str> = names_in(program).into_iter().filter(|name| !is_known(name)).collect();
    ensure!(named.is_empty(), "the program contains names of functions that start processes: {}", named.join(", "));
    Ok(imports)
}

/// Returns which of the names the file contains, in one byte per letter or in two.
fn names_in(program: &[u8]) -> Vec<&'static str> {
    let is_at = |window: &[u8], name: &str, step: usize| {
        let letters = window.iter().step_by(step).map(u8::to_ascii_lowercase);
        letters.eq(name.bytes()) && (step == 1 || window.iter().skip(1).step_by(2).all(|byte| *byte == 0))
    };
    let holds = |name: &&&str| {
        [1, 2].iter().any(|step| program.windows(name.len() * step).any(|window| is_at(window, name, *step)))
    };
    NAMES.iter().filter(holds).copied().collect()
}

/// Reads the imports of a 64-bit program, including delay-loaded ones.
///
/// # Errors
/// It is not such a program, or broken.
pub fn imports(program: &[u8]) -> anyhow::Result<Imports> {
    let file = PeFile64::parse(program).context("not a 64-bit Windows program")?;
    let mut all = Imports::default();
    if let Some(table) = file.import_table().context("the imports")? {
        let mut libraries = table.descriptors().context("the imports")?;
        while let Some(library) = libraries.next().context("a library")? {
            let name = table.name(library.name.get(LittleEndian)).context("a library's name")?;
            let first = match library.original_first_thunk.get(LittleEndian) {
                0 => library.first_thunk.get(LittleEndian),
                names => names,
            };
            let mut functions = table.thunks(first).context("a library's functions")?;
            all.library(name);
            while let Some(function) = functions.next::<ImageNtHeaders64>().context("a function")? {
                all.function(name, &named(function, |thunk| table.import::<ImageNtHeaders64>(thunk))?);
            }
        }
    }
    let late = file.data_directories().delay_load_import_table(program, &file.section_table());
    if let Some(table) = late.context("imports that are looked up late")? {
        let mut libraries = table.descriptors().context("imports that are looked up late")?;
        while let Some(library) = libraries.next().context("a library")? {
            let name = table.name(library.dll_name_rva.get(LittleEndian)).context("a library's name")?;
            let first = library.import_name_table_rva.get(LittleEndian);
            let mut functions = table.thunks(first).context("a library's functions")?;
            all.library(name);
            while let Some(function) = functions.next::<ImageNtHeaders64>().context("a function")? {
                all.function(name, &named(function, |thunk| table.import::<ImageNtHeaders64>(thunk))?);
            }
        }
    }
    Ok(all)
}

fn named<'a>(
    thunk: ImageThunkData64,
    import: impl Fn(ImageThunkData64) -> object::Result<Import<'a>>,
) -> anyhow::Result<String> {
    Ok(match import(thunk).context("a function's name")? {
        Import::Name(_, name) => String::from_utf8_lossy(name).into_owned(),
        Import::Ordinal(number) => format!("#{number}"),
    })
}

impl Imports {
    fn library(&mut self, name: &[u8]) {
        self.libraries.insert(String::from_utf8_lossy(name).to_lowercase());
    }

    fn function(&mut self, library: &[u8], name: &str) {
        self.functions.insert(format!("{}!{name}", String::from_utf8_lossy(library).to_lowercase()));
    }

    /// Returns the functions that start a process.
    pub fn starting(&self) -> Vec<&str> {
        let functions = self.functions.iter().map(String::as_str);
        functions.filter(|function| starts(function.rsplit('!').next().unwrap_or(function))).collect()
    }

    /// Rejects a program that can start others by any function except `known` ones.
    ///
    /// # Errors
    /// The error names the imports, or a known function that is not imported. Too few imports are also an error,
    /// because they were not read then.
    pub fn start_nothing(&self, known: &[String]) -> anyhow::Result<()> {
        ensure!(self.functions.len() >= 20, "only {} imports found; the program is incomplete", self.functions.len());
        let is_of = |function: &str, name: &String| function.rsplit('!').next() == Some(name.as_str());
        let (expected, starting): (Vec<&str>, Vec<&str>) =
            self.starting().into_iter().partition(|function| known.iter().any(|name| is_of(function, name)));
        ensure!(starting.is_empty(), "the program imports functions that start processes: {}", starting.join(", "));
        let idle = known.iter().find(|name| !expected.iter().any(|function| is_of(function, name)));
        ensure!(
            idle.is_none(),
            "the program does not import {}; remove the exception",
            idle.map_or("", String::as_str)
        );
        Ok(())
    }
}

fn starts(function: &str) -> bool {
    let name = function.to_lowercase();
    let of_family = |family: &str| {
        name.strip_prefix(family)
            .is_some_and(|rest| ["l", "v"].iter().any(|kind| rest.starts_with(kind)) && rest.len() <= 3)
    };
    STARTS.iter().any(|start| name.starts_with(start))
        || OF_C.contains(&name.as_str())
        || FAMILIES_OF_C.iter().any(|family| of_family(family))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a program of one section that imports functions of one library.
    fn program(library: &str, functions: &[&str], late: bool) -> Vec<u8> {
        const AT: u32 = 0x1000;
        let mut file = vec![0; 0x200];
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"MZ");
        put(0x3c, &0x40_u32.to_le_bytes());
        put(0x40, b"PE\0\0");
        put(0x44, &0x8664_u16.to_le_bytes());
        put(0x46, &1_u16.to_le_bytes());
        // The optional header with its sixteen directories.
        put(0x54, &240_u16.to_le_bytes());
        put(0x56, &0x0022_u16.to_le_bytes());
        let optional = 0x58;
        put(optional, &0x020b_u16.to_le_bytes());
        put(optional + 108, &16_u32.to_le_bytes());
        let directory = optional + 112 + if late { 13 * 8 } else { 8 };
        put(directory, &AT.to_le_bytes());
        put(directory + 4, &64_u32.to_le_bytes());
        let section = optional + 240;
        put(section, b".idata");
        put(section + 8, &0x1000_u32.to_le_bytes());
        put(section + 12, &AT.to_le_bytes());
        put(section + 16, &0x1000_u32.to_le_bytes());
        put(section + 20, &0x200_u32.to_le_bytes());
        // Two descriptors, the second empty; names from 0x400 on, thunks from 0x100 on.
        let mut data = vec![0; 0x1000];
        let (name_at, thunks_at, mut free) = (AT + 0x80, AT + 0x100, 0x400_usize);
        let (at_names, at_name) = if late { (16, 4) } else { (0, 12) };
        data[at_names..at_names + 4].copy_from_slice(&thunks_at.to_le_bytes());
        data[at_name..at_name + 4].copy_from_slice(&name_at.to_le_bytes());
        data[0x80..0x80 + library.len()].copy_from_slice(library.as_bytes());
        for (nth, function) in functions.iter().enumerate() {
            let at = 0x100 + nth * 8;
            data[at..at + 4].copy_from_slice(&(AT + u32::try_from(free).unwrap()).to_le_bytes());
            data[free + 2..free + 2 + function.len()].copy_from_slice(function.as_bytes());
            free += 4 + function.len();
        }
        file.extend(data);
        file
    }

    /// This covers every way to start one.
    #[test]
    fn program_that_can_start_another_is_rejected() {
        let harmless: Vec<String> = (0..30).map(|nth| format!("Read{nth}")).collect();
        let harmless: Vec<&str> = harmless.iter().map(String::as_str).collect();
        let read = imports(&program("KERNEL32.dll", &harmless, false)).unwrap();
        assert_eq!(read.libraries, ["kernel32.dll".to_owned()].into());
        assert!(read.functions.contains("kernel32.dll!Read7") && read.functions.len() == 30, "{read:?}");
        read.start_nothing(&[]).unwrap();
        for one in [
            "CreateProcessW",
            "CreateProcessAsUserA",
            "ShellExecuteExW",
            "WinExec",
            "NtCreateUserProcess",
            "_wspawnlp",
            "system",
        ] {
            for late in [false, true] {
                let all = [&harmless[..], &[one]].concat();
                let refused = imports(&program("KERNEL32.dll", &all, late)).unwrap().start_nothing(&[]).unwrap_err();
                assert!(refused.to_string().contains(&format!("kernel32.dll!{one}")), "{one}: {refused}");
            }
        }
    }

    /// The program could look the function up at run time.
    #[test]
    fn program_with_the_name_of_a_start_function_is_rejected() {
        let harmless: Vec<String> = (0..30).map(|nth| format!("Read{nth}")).collect();
        let harmless: Vec<&str> = harmless.iter().map(String::as_str).collect();
        let plain = program("KERNEL32.dll", &harmless, false);
        assert_eq!(of_one_that_starts_nothing(&plain, &[]).unwrap().functions.len(), 30);
        let wide: Vec<u8> = "CreateProcessW".bytes().flat_map(|letter| [letter, 0]).collect();
        for name in [&b"xShellExecuteExW"[..], b"NtCreateUserProcess", &wide] {
            let refused = of_one_that_starts_nothing(&[&plain[..], name].concat(), &[]).unwrap_err().to_string();
            assert!(refused.contains("names of functions"), "{refused}");
        }
    }

    /// A known function must be imported, and no other one may be.
    #[test]
    fn only_known_start_functions_are_accepted() {
        let harmless: Vec<String> = (0..30).map(|nth| format!("Read{nth}")).collect();
        let harmless: Vec<&str> = harmless.iter().map(String::as_str).collect();
        let with = |more: &[&str]| program("KERNEL32.dll", &[&harmless[..], more].concat(), false);
        let known = ["CreateProcessW".to_owned()];
        of_one_that_starts_nothing(&with(&["CreateProcessW"]), &known).unwrap();
        for more in
            [&[][..], &["CreateProcessA"], &["CreateProcessW", "CreateProcessAsUserW"], &["CreateProcessW", "WinExec"]]
        {
            of_one_that_starts_nothing(&with(more), &known).unwrap_err();
        }
        let looked_up = [&with(&["CreateProcessW"])[..], b"ShellExecuteExW"].concat();
        assert!(of_one_that_starts_nothing(&looked_up, &known).unwrap_err().to_string().contains("names of functions"));
    }

    #[test]
    fn similar_names_are_not_start_functions() {
        for name in [
            "OpenProcess",
            "GetSystemInfo",
            "ExecuteNothing",
            "TerminateProcess",
            "ExitProcess",
            "SystemTimeToFileTime",
        ] {
            assert!(!starts(name), "{name}");
        }
    }

    #[test]
    fn unreadable_imports_are_an_error() {
        assert!(imports(b"MZ").is_err());
        assert!(imports(&program("a.dll", &["ReadFile"], false)).unwrap().start_nothing(&[]).is_err());
    }
}
