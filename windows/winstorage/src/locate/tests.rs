use super::*;

#[test]
fn disk_location_is_parsed_part_by_part() {
    let place = |adapter: &str, bus: &str, target: &str, lun: &str| {
        let [adapter, bus, target, lun] = [adapter, bus, target, lun].map(str::to_owned);
        Some(DiskLocation { adapter, bus, target, lun })
    };
    assert_eq!(location("PCI Slot 3 : Adapter 0 : Port 0 : Target 1 : LUN 0"), place("0", "", "1", "0"));
    assert_eq!(location("Integrated : Adapter 2 : Bus 1 : Target 3 : LUN 4"), place("2", "1", "3", "4"));
    // The first text has four parts instead of five. The second has no part with two words. The next two are valid,
    // because unknown words are ignored.
    assert_eq!(location("Adapter 0 : Port 0 : Target 1 : LUN 0"), None);
    assert_eq!(location("a : b : c : d : e"), None);
    assert_eq!(location("a : b : c : d : Port 7"), place("", "", "", ""));
    assert_eq!(location("a : Adapter  0 : c : LUN : Target x"), place("", "", "x", ""));
    assert_eq!(location(""), None);
}

const VOLUME: &str = "vol-0123456789abcdef0";

fn disks(serials: &[(u32, &str)]) -> BTreeMap<DiskNumber, DiskIds> {
    let ids = |serial: &str| DiskIds { page83: String::new(), serial_number: serial.to_owned() };
    serials.iter().map(|(number, serial)| (DiskNumber(*number), ids(serial))).collect()
}

fn look(serials: &[(u32, &str)]) -> Result<Look, SearchError> {
    DiskSearch::new(VOLUME, "/dev/xvdba").look(&disks(serials), &BTreeMap::new())
}

#[test]
fn ebs_disk_is_found_by_its_serial_number() {
    let serials = [(0, "vol00000000000000000_00000001."), (3, "vol0123456789abcdef0_00000001.")];
    assert_eq!(look(&serials), Ok(Look::Found(DiskNumber(3))));
    let mut search = DiskSearch::new(VOLUME, "/dev/xvdba");
    let error = loop {
        match search.look(&disks(&serials[..1]), &BTreeMap::new()) {
            Ok(Look::RescanAndWait(_)) => {}
            Ok(found) => panic!("{found:?}"),
            Err(error) => break error.to_string(),
        }
    };
    let text = "Failed to find device path /dev/xvdba. disk number for device path \"/dev/xvdba\" volume id \"vol-0123456789abcdef0\" not found";
    assert_eq!(error, text);
}

#[test]
fn serial_numbers_match_as_a_whole_and_must_be_unique() {
    assert_eq!(look(&[(2, "  VOL0123456789ABCDEF0_00000001. ")]), Ok(Look::Found(DiskNumber(2))));
    assert_eq!(look(&[(2, "vol0123456789abcdef0")]), Ok(Look::Found(DiskNumber(2))));
    // The reference checks only whether the serial number contains the id, so it would accept the first two of these.
    for other in ["vol0123456789abcdef01_00000001.", "xvol0123456789abcdef0_1", "vol0123456789abcdef", ""] {
        assert!(matches!(look(&[(2, other)]), Ok(Look::RescanAndWait(_))), "{other}");
    }
    let twice = look(&[(2, "vol0123456789abcdef0_1"), (4, "vol0123456789abcdef0_2")]).unwrap_err();
    assert_eq!(twice.to_string(), "disks 2 and 4 both identify themselves as volume vol-0123456789abcdef0");
}

#[test]
fn late_disk_is_searched_again_with_growing_pauses() {
    let mut search = DiskSearch::new(VOLUME, "/dev/xvdba");
    let mut waits = Vec::new();
    while let Ok(Look::RescanAndWait(wait)) = search.look(&BTreeMap::new(), &BTreeMap::new()) {
        waits.push(wait);
    }
    let all: Duration = waits.iter().sum();
    assert!(waits.is_sorted() && waits.len() > 4, "{waits:?}");
    assert!(all >= Duration::from_secs(4) && all <= Duration::from_secs(7), "{all:?}");
}

#[test]
fn disk_without_ebs_serial_is_found_by_page_83_or_location() {
    let mut ids = disks(&[(1, ""), (2, "")]);
    ids.get_mut(&DiskNumber(2)).unwrap().page83 = hex::encode("vol0123456789abcdef0");
    assert_eq!(DiskSearch::new(VOLUME, "/dev/xvdb").look(&ids, &BTreeMap::new()), Ok(Look::Found(DiskNumber(2))));

    let target =
        |target: &str| DiskLocation { target: target.to_owned(), lun: "0".to_owned(), ..DiskLocation::default() };
    let places =
        BTreeMap::from([(DiskNumber(0), target("0")), (DiskNumber(1), target("2")), (DiskNumber(2), target("26"))]);
    let ids = disks(&[(0, "AWS PV"), (1, "AWS PV"), (2, "AWS PV")]);
    let found = |device: &str| DiskSearch::new(VOLUME, device).look(&ids, &places);
    assert_eq!(found("xvdc"), Ok(Look::Found(DiskNumber(1))));
    assert_eq!(found("/dev/sda1"), Ok(Look::Found(DiskNumber(0))));
    assert_eq!(found("/dev/xvdaa"), Ok(Look::Found(DiskNumber(2))));
    assert!(matches!(found("/dev/nvme1n1"), Ok(Look::RescanAndWait(_))));
    let named = disks(&[(1, "vol0fedcba9876543210_00000001.")]);
    let other = DiskSearch::new(VOLUME, "xvdc").look(&named, &places);
    assert!(matches!(other, Ok(Look::RescanAndWait(_))), "{other:?}");
}
