//! Security descriptors of the files in the layer, in Windows' self-relative form, as layers contain them.

/// `S-1-5-18`
const SYSTEM: &[u32] = &[18];
/// `S-1-5-32-544`
const ADMINISTRATORS: &[u32] = &[32, 544];
/// `S-1-5-32-545`
const USERS: &[u32] = &[32, 545];

const FULL: u32 = 0x001f_01ff;
const READ_AND_RUN: u32 = 0x0012_00a9;
/// Entries of a directory are inherited by its new files.
const INHERITED: u8 = 0x03;

/// The DACL is present and protected from inheritance, and all parts follow the header.
const CONTROL: u16 = 0x8000 | 0x1000 | 0x0004;
const HEAD: usize = 20;

/// Returns the descriptor: administrators own it; they and the system have full access, and users may read and execute.
/// In SDDL: `O:BAG:SYD:P(A;;FA;;;SY)(A;;FA;;;BA)(A;;0x1200a9;;;BU)`.
pub(super) fn descriptor(is_directory: bool) -> Vec<u8> {
    let (owner, group) = (account(ADMINISTRATORS), account(SYSTEM));
    let entries: Vec<u8> = [(FULL, SYSTEM), (FULL, ADMINISTRATORS), (READ_AND_RUN, USERS)]
        .into_iter()
        .flat_map(|(rights, who)| allows(rights, who, is_directory))
        .collect();
    let mut list = vec![2, 0];
    list.extend(short(8 + entries.len()));
    list.extend(short(3));
    list.extend([0, 0]);
    list.extend(entries);
    let at_group = HEAD + owner.len();
    let mut bytes = vec![1, 0];
    bytes.extend(CONTROL.to_le_bytes());
    for place in [HEAD, at_group, 0, at_group + group.len()] {
        bytes.extend(long(place));
    }
    bytes.extend([owner, group, list].concat());
    bytes
}

fn allows(rights: u32, who: &[u32], is_directory: bool) -> Vec<u8> {
    let who = account(who);
    let mut entry = vec![0, if is_directory { INHERITED } else { 0 }];
    entry.extend(short(8 + who.len()));
    entry.extend(rights.to_le_bytes());
    entry.extend(who);
    entry
}

/// An account below `S-1-5`.
fn account(parts: &[u32]) -> Vec<u8> {
    let count = u8::try_from(parts.len()).expect("two parts at most");
    let mut bytes = vec![1, count, 0, 0, 0, 0, 0, 5];
    bytes.extend(parts.iter().flat_map(|part| part.to_le_bytes()));
    bytes
}

fn short(length: usize) -> [u8; 2] {
    u16::try_from(length).expect("a few bytes").to_le_bytes()
}

fn long(length: usize) -> [u8; 4] {
    u32::try_from(length).expect("a few bytes").to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Administrators and the system have full access.
    #[test]
    fn users_may_read_and_run_a_file_but_not_write_it() {
        let bytes = descriptor(false);
        // From the tables of Windows' documentation: header, owner, group, list.
        let head = "0100049014000000240000000000000030000000";
        let owner = "01020000000000052000000020020000";
        let group = "010100000000000512000000";
        let list = "02004c0003000000";
        let system = "00001400ff011f00010100000000000512000000";
        let administrators = "00001800ff011f0001020000000000052000000020020000";
        let users = "00001800a900120001020000000000052000000021020000";
        let expected = [head, owner, group, list, system, administrators, users].concat();
        assert_eq!(hex::encode(bytes), expected);
    }

    #[test]
    fn new_files_in_a_directory_inherit_its_rights() {
        let (file, directory) = (descriptor(false), descriptor(true));
        let differing: Vec<u8> =
            file.iter().zip(&directory).filter(|(one, other)| one != other).map(|(_, b)| *b).collect();
        assert_eq!((file.len() == directory.len(), differing), (true, vec![INHERITED; 3]));
    }
}
