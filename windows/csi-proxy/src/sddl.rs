//! Checks the security descriptor of the pipes. A descriptor that gives write access to a large group gives every pod
//! access to the node's storage.

use crate::flags::DEFAULT_PIPE_SECURITY;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SddlError {
    #[error("parse security descriptor {0:?}: list of rights (D:...) missing, so everyone would have all rights")]
    NoList(String),
    #[error("parse security descriptor: invalid entry ({0})")]
    Entry(String),
    #[error(
        "parse security descriptor: owner {who} could change the rights; choose another owner, or set --insecure-pipe-acl"
    )]
    Owner { who: &'static str },
    #[error(
        "parse security descriptor: entry ({entry}) lets {who} write to the pipes, and so to the node's storage; remove it, or set --insecure-pipe-acl"
    )]
    Insecure { entry: String, who: &'static str },
}

/// Groups that Windows fills by itself: alias, SID and name. The groups for containers have no alias.
const CROWDS: [(&str, &str, &str); 10] = [
    ("WD", "S-1-1-0", "Everyone"),
    ("AN", "S-1-5-7", "Anonymous"),
    ("BU", "S-1-5-32-545", "Users"),
    ("NU", "S-1-5-2", "Network"),
    ("AU", "S-1-5-11", "Authenticated Users"),
    ("IU", "S-1-5-4", "Interactive"),
    ("BG", "S-1-5-32-546", "Guests"),
    ("AC", "S-1-15-2-1", "All Application Packages"),
    ("S-1-5-93-0", "S-1-5-93-0", "all containers"),
    ("S-1-5-93-2-2", "S-1-5-93-2-2", "ContainerUser"),
];

#[rustfmt::skip]
const RIGHTS: [(&str, u32); 24] = [
    ("GA", 0x1000_0000), ("GX", 0x2000_0000), ("GW", 0x4000_0000), ("GR", 0x8000_0000), ("RC", 0x0002_0000), ("SD", 0x0001_0000),
    ("WD", 0x0004_0000), ("WO", 0x0008_0000), ("CC", 0x1), ("DC", 0x2), ("LC", 0x4), ("SW", 0x8),
    ("RP", 0x10), ("WP", 0x20), ("DT", 0x40), ("LO", 0x80), ("CR", 0x100), ("FA", 0x001f_01ff),
    ("FR", 0x0012_0089), ("FW", 0x0012_0116), ("FX", 0x0012_00a0), ("KA", 0x000f_003f), ("KR", 0x0002_0019), ("KW", 0x0002_0006),
];

/// The rights that count as write access: write data, add instances, write both kinds of attributes, delete, change the
/// rights or the owner, generic write and generic all.
const WRITING: u32 = 0x2 | 0x4 | 0x10 | 0x100 | 0x1_0000 | 0x4_0000 | 0x8_0000 | 0x1000_0000 | 0x4000_0000;
/// FILE_CREATE_PIPE_INSTANCE, the generic rights that include it, and the rights to change the descriptor. An account
/// with one of these rights can serve clients in place of the proxy.
const ADDING: u32 = 0x4 | 0x4_0000 | 0x8_0000 | 0x1000_0000 | 0x4000_0000;
const SYSTEM: &str = "S-1-5-18";

pub(crate) fn check(descriptor: &str) -> Result<(), SddlError> {
    let entries = rights_list(descriptor).ok_or_else(|| SddlError::NoList(descriptor.to_owned()))?;
    // The owner may always change the rights, even without WRITE_DAC.
    if let Some(who) = owner(descriptor).as_deref().and_then(crowd) {
        return Err(SddlError::Owner { who });
    }
    entries.into_iter().try_for_each(entry)
}

/// Returns the default descriptor for a proxy that runs as `user`, a SID. To create more instances of a pipe, Windows
/// requires a right on the first one (Microsoft, "Named Pipe Security and Access Rights"), and the default descriptor
/// gives this right to the system only.
pub(crate) fn for_user(user: &str) -> String {
    let own = if user.eq_ignore_ascii_case(SYSTEM) { String::new() } else { format!("(A;;GA;;;{user})") };
    DEFAULT_PIPE_SECURITY.replacen("(A;;GA;;;SY)", &format!("(A;;GA;;;SY){own}"), 1)
}

/// Returns the entries that let accounts other than the system and `user` add instances of the pipes. Such an account
/// can serve clients in place of the proxy.
#[cfg_attr(not(any(windows, test)), expect(dead_code, reason = "for Windows"))]
pub(crate) fn that_add_instances<'a>(descriptor: &'a str, user: Option<&str>) -> Vec<&'a str> {
    let adds = |entry: &&str| {
        let parts: Vec<&str> = entry.split(';').map(str::trim).collect();
        let [kind, _, rights, _, _, who, ..] = parts.as_slice() else { return false };
        let is_own = who.eq_ignore_ascii_case("SY")
            || who.eq_ignore_ascii_case(SYSTEM)
            || user.is_some_and(|user| user.eq_ignore_ascii_case(who));
        kind.ends_with('A') && !is_own && mask(rights).is_some_and(|mask| mask & ADDING != 0)
    };
    rights_list(descriptor).unwrap_or_default().into_iter().filter(adds).collect()
}

fn owner(descriptor: &str) -> Option<String> {
    let mut depth = 0_u32;
    let is_outside = |letter: &char| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    };
    let outside: String = descriptor.chars().filter(is_outside).collect();
    let (_, rest) = outside.split_once("O:")?;
    // The name of the next part is the letter before its colon.
    let end = rest.find(':').map_or(rest.len(), |colon| colon.saturating_sub(1));
    rest.get(..end).map(str::to_owned)
}

fn crowd(who: &str) -> Option<&'static str> {
    let is_it =
        |(alias, number, _): &&(&str, &str, &str)| alias.eq_ignore_ascii_case(who) || number.eq_ignore_ascii_case(who);
    CROWDS.iter().find(is_it).map(|(_, _, name)| *name)
}

/// Returns the entries of the `D:` part, or `None` if it is missing or malformed.
fn rights_list(descriptor: &str) -> Option<Vec<&str>> {
    let (mut entries, mut depth, mut begin, mut part) = (Vec::new(), 0_u32, 0, None);
    let mut has_list = false;
    for (at, letter) in descriptor.char_indices() {
        match letter {
            '(' => {
                depth += 1;
                if depth == 1 {
                    begin = at + 1;
                }
            }
            ')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && part == Some('D') {
                    entries.push(descriptor.get(begin..at)?);
                }
            }
            ':' if depth == 0 => {
                part = descriptor.get(..at)?.chars().last();
                has_list |= part == Some('D');
            }
            _ => {}
        }
    }
    (has_list && depth == 0 && !descriptor.contains("NO_ACCESS_CONTROL")).then_some(entries)
}

/// Checks an entry, `type;flags;rights;object;inherited object;who`.
fn entry(text: &str) -> Result<(), SddlError> {
    let unknown = || SddlError::Entry(text.to_owned());
    let parts: Vec<&str> = text.split(';').map(str::trim).collect();
    let [kind, _, rights, _, _, who, ..] = parts.as_slice() else { return Err(unknown()) };
    match *kind {
        "D" | "OD" | "XD" => return Ok(()),
        "A" | "OA" | "XA" | "ZA" => {}
        _ => return Err(unknown()),
    }
    let Some(crowd) = crowd(who) else { return Ok(()) };
    if mask(rights).ok_or_else(unknown)? & WRITING == 0 {
        return Ok(());
    }
    Err(SddlError::Insecure { entry: text.to_owned(), who: crowd })
}

fn mask(rights: &str) -> Option<u32> {
    if let Some(digits) = rights.strip_prefix("0x").or_else(|| rights.strip_prefix("0X")) {
        return u32::from_str_radix(digits, 16).ok();
    }
    if !rights.is_empty() && rights.bytes().all(|byte| byte.is_ascii_digit()) {
        return rights.parse().ok();
    }
    let mut mask = 0;
    let mut rest = rights;
    while !rest.is_empty() {
        let (name, after) = rest.split_at_checked(2)?;
        mask |= RIGHTS.iter().find(|(right, _)| right.eq_ignore_ascii_case(name))?.1;
        rest = after;
    }
    Some(mask)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn write_access_for_a_large_group_is_rejected() {
        for (who, name) in
            [("WD", "Everyone"), ("AN", "Anonymous"), ("BU", "Users"), ("NU", "Network"), ("S-1-1-0", "Everyone")]
        {
            for rights in ["GA", "GW", "FA", "FW", "GRGW", "0x12019b", "0x2", "0x40000000", "WO", "268435456"] {
                let descriptor = format!("O:BAG:SYD:P(A;;GA;;;SY)(A;OICI;{rights};;;{who})S:(AU;SA;GA;;;WD)");
                match check(&descriptor) {
                    Err(SddlError::Insecure { who, .. }) => assert_eq!(who, name),
                    other => panic!("{descriptor}: {other:?}"),
                }
            }
        }
    }

    #[test]
    fn administrators_can_use_but_not_serve_pipes_by_default() {
        let rights = DEFAULT_PIPE_SECURITY.strip_prefix("D:P(A;;GA;;;SY)(A;;0x").unwrap();
        let rights = u32::from_str_radix(rights.strip_suffix(";;;BA)").unwrap(), 16).unwrap();
        // The rights include FILE_READ_DATA and FILE_WRITE_DATA, but not FILE_CREATE_PIPE_INSTANCE, WRITE_DAC or
        // WRITE_OWNER.
        assert_eq!((rights & 1, rights & 2, rights & 4, rights & 0xc_0000), (1, 2, 0, 0));
    }

    #[test]
    fn read_access_for_large_groups_is_accepted() {
        let others = [
            "D:P(A;;GA;;;SY)(A;;GR;;;WD)",
            "D:(D;;GA;;;WD)(A;;GA;;;BA)",
            "D:(A;;GA;;;S-1-5-21-1-2-3-1001)",
            "D:P",
            "D:(A;;FR;;;AN)S:(ML;;NW;;;HI)",
        ];
        for descriptor in others.into_iter().chain([DEFAULT_PIPE_SECURITY]) {
            assert_eq!(check(descriptor), Ok(()), "{descriptor}");
        }
    }

    #[test]
    fn malformed_descriptor_or_missing_dacl_is_rejected() {
        for descriptor in ["", "O:BA", "S:(AU;SA;GA;;;WD)", "D:NO_ACCESS_CONTROL", "D:(A;;GA;;;WD"] {
            assert!(matches!(check(descriptor), Err(SddlError::NoList(_))), "{descriptor}");
        }
        for descriptor in ["D:(A;;QQ;;;WD)", "D:(A;;G;;;WD)", "D:(A;;GR)", "D:(?;;GR;;;WD)", "D:(A;;0xzz;;;BU)"] {
            assert!(matches!(check(descriptor), Err(SddlError::Entry(_))), "{descriptor}: {:?}", check(descriptor));
        }
    }

    #[test]
    fn descriptor_lets_the_service_user_add_pipe_instances() {
        assert_eq!(for_user("S-1-5-18"), DEFAULT_PIPE_SECURITY);
        let descriptor = for_user("S-1-5-21-1-2-3-500");
        assert_eq!(descriptor, "D:P(A;;GA;;;SY)(A;;GA;;;S-1-5-21-1-2-3-500)(A;;0x12019b;;;BA)");
        assert_eq!(check(&descriptor), Ok(()));
    }

    #[test]
    fn descriptor_owned_by_a_large_group_is_rejected() {
        for descriptor in ["O:WDG:SYD:P(A;;GA;;;SY)", "D:P(A;;GA;;;SY)O:S-1-1-0", "G:SYO:AUD:(A;;GA;;;SY)"] {
            check(descriptor).expect_err(descriptor);
        }
        for who in ["S-1-5-93-2-2", "S-1-5-93-0", "AC", "S-1-15-2-1"] {
            let descriptor = format!("O:SYG:SYD:P(A;;GW;;;{who})");
            assert!(matches!(check(&descriptor), Err(SddlError::Insecure { .. })), "{descriptor}");
        }
        assert_eq!(check("O:SYG:WDD:P(A;;GA;;;SY)"), Ok(()));
    }

    #[test]
    fn acl_entries_that_let_others_add_pipe_instances_are_found() {
        let own = "S-1-5-21-1-2-3-500";
        let descriptor =
            format!("D:P(A;;GA;;;SY)(A;;GA;;;{own})(A;;0x12019b;;;BA)(A;;GW;;;S-1-5-21-9)(D;;GA;;;WD)(A;;GR;;;BU)");
        assert_eq!(that_add_instances(&descriptor, Some(own)), ["A;;GW;;;S-1-5-21-9"]);
        assert_eq!(that_add_instances(&for_user(own), Some(own)), [""; 0]);
        assert_eq!(that_add_instances(&for_user(own), None).len(), 1);
    }

    proptest! {
        #[test]
        fn any_descriptor_text_is_checked_without_panic(text in "[DOGSA:();0-9xWBUNP€ ]{0,60}") {
            let _ = check(&text);
        }
    }
}
