use super::*;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Thing(&'static str, u64);

impl Entry for Thing {
    fn id(&self) -> &str {
        self.0
    }

    fn born(&self) -> Option<SystemTime> {
        Some(SystemTime::UNIX_EPOCH + Duration::from_secs(self.1))
    }

    fn exists(&self) -> bool {
        true
    }
}

fn after(token: Option<&String>) -> Option<Position> {
    token.and_then(|t| Position::from_token(t))
}

#[test]
fn short_pages_stay_consistent_when_objects_come_and_go() {
    let all = vec![Thing("vol-c", 1), Thing("vol-a", 2), Thing("vol-b", 2), Thing("vol-0", 3)];
    let first = cut(all, None, 2);
    assert_eq!(first.items, [Thing("vol-c", 1), Thing("vol-a", 2)]);
    let later = vec![Thing("vol-b", 2), Thing("vol-0", 3), Thing("vol-00", 4)];
    let second = cut(later, after(first.next.as_ref()).as_ref(), 2);
    assert_eq!(second.items, [Thing("vol-b", 2), Thing("vol-0", 3)]);
    let third = cut(vec![Thing("vol-00", 4)], after(second.next.as_ref()).as_ref(), 0);
    assert_eq!(third, Page { items: vec![Thing("vol-00", 4)], next: None });
}

#[test]
fn invalid_page_token_is_rejected() {
    for bad in ["", "after:", "after:x:vol-1", "after:1", "before:1:vol-1"] {
        assert_eq!(Position::from_token(bad), None, "{bad:?}");
    }
    let position = Position { micros: 7, id: "vol-1".into() };
    assert_eq!(Position::from_token(&position.to_token()), Some(position));
}
