//! How many EBS volumes an instance type supports, from the data file in `data/`.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;

/// Whether EBS volumes share attachment slots with network interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitKind {
    /// Volumes and network interfaces share one pool of slots.
    Shared,
    /// The slots are for EBS volumes only.
    Dedicated,
}

/// The attachment limit of an instance type, including the root volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct AttachmentLimit {
    pub limit: u32,
    pub kind: LimitKind,
}

/// Maps a family to its sizes, which are separated by spaces.
type TypeSet = HashMap<String, String>;

#[derive(Deserialize)]
struct NonNitro {
    limit: u32,
    kind: LimitKind,
    types: TypeSet,
}

#[derive(Deserialize)]
struct File {
    default: AttachmentLimit,
    non_nitro: NonNitro,
    limits: Limits,
    force_dedicated: TypeSet,
    ebs_cards_default: u32,
    ebs_cards: HashMap<String, TypeSet>,
}

#[derive(Deserialize)]
struct Limits {
    shared: HashMap<String, TypeSet>,
    dedicated: HashMap<String, TypeSet>,
}

struct Table {
    default: AttachmentLimit,
    limits: HashMap<String, AttachmentLimit>,
    xen: HashSet<String>,
    cards_default: u32,
    cards: HashMap<String, u32>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let file: File = serde_json::from_str(include_str!("../data/instance-limits.json"))
        .expect("the table in data/ is checked by a test");
    let mut limits = HashMap::new();
    for (sets, kind) in [(&file.limits.shared, LimitKind::Shared), (&file.limits.dedicated, LimitKind::Dedicated)] {
        for (limit, set) in sets {
            let limit = limit.parse().expect("limits are decimal, checked by a test");
            limits.extend(types(set).map(|name| (name, AttachmentLimit { limit, kind })));
        }
    }
    for name in types(&file.force_dedicated) {
        if let Some(entry) = limits.get_mut(&name) {
            entry.kind = LimitKind::Dedicated;
        }
    }
    let xen: HashSet<String> = types(&file.non_nitro.types).collect();
    let of_xen = AttachmentLimit { limit: file.non_nitro.limit, kind: file.non_nitro.kind };
    limits.extend(xen.iter().map(|name| (name.clone(), of_xen)));
    let mut cards = HashMap::new();
    for (count, set) in &file.ebs_cards {
        let count = count.parse().expect("card counts are decimal, checked by a test");
        cards.extend(types(set).map(|name| (name, count)));
    }
    Table { default: file.default, limits, xen, cards_default: file.ebs_cards_default, cards }
});

fn types(set: &TypeSet) -> impl Iterator<Item = String> + '_ {
    set.iter().flat_map(|(family, sizes)| sizes.split_whitespace().map(move |size| format!("{family}.{size}")))
}

fn plain(instance_type: &str) -> &str {
    instance_type.strip_prefix("ml.").unwrap_or(instance_type)
}

/// Returns the attachment limit of an instance type, or the default for an unknown type. Ignores SageMaker's `ml.`.
pub fn attachment_limit(instance_type: &str) -> AttachmentLimit {
    TABLE.limits.get(plain(instance_type)).copied().unwrap_or(TABLE.default)
}

/// Returns the number of EBS cards of an instance type, at least 1.
pub fn ebs_cards(instance_type: &str) -> u32 {
    TABLE.cards.get(plain(instance_type)).copied().unwrap_or(TABLE.cards_default)
}

/// Returns true for types on the Xen hypervisor, whose disks are not NVMe devices and have no serial number.
pub fn is_xen(instance_type: &str) -> bool {
    TABLE.xen.contains(plain(instance_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_matches_published_limits_and_card_counts() {
        use LimitKind::{Dedicated, Shared};
        for (name, limit, kind, cards) in [
            ("t2.micro", 39, Dedicated, 1),
            ("m5.large", 27, Shared, 1),
            ("g5.xlarge", 25, Shared, 1),
            ("a1.metal", 31, Shared, 1),
            ("m7i-flex.large", 32, Dedicated, 1),
            ("m7i.48xlarge", 128, Dedicated, 1),
            ("i7i.metal-24xl", 39, Dedicated, 1),
            ("x8i.metal-96xl", 79, Dedicated, 1),
            ("r8gb.48xlarge", 128, Dedicated, 2),
            ("inf1.24xlarge", 11, Shared, 1),
            ("ml.m7i.48xlarge", 128, Dedicated, 1),
            ("unknown.type", 27, Shared, 1),
        ] {
            assert_eq!(attachment_limit(name), AttachmentLimit { limit, kind }, "{name}");
            assert_eq!(ebs_cards(name), cards, "{name}");
        }
        assert!(is_xen("t2.micro"));
        assert!(!is_xen("m5.large"));
    }

    #[test]
    fn limit_table_contains_every_type_of_the_data_file() {
        assert_eq!(TABLE.xen.len(), 74);
        assert_eq!(TABLE.limits.len(), 1028 + 74);
        assert_eq!(TABLE.cards.len(), 33);
    }

    /// EC2 reports a shared limit for these 48 metal types, but their slots are dedicated.
    #[test]
    fn metal_types_with_override_have_dedicated_limits() {
        let file: File = serde_json::from_str(include_str!("../data/instance-limits.json")).unwrap();
        let forced: Vec<String> = types(&file.force_dedicated).collect();
        assert_eq!(forced.len(), 48);
        for name in forced {
            assert_eq!(TABLE.limits.get(&name).map(|l| l.kind), Some(LimitKind::Dedicated), "{name}");
        }
    }
}
