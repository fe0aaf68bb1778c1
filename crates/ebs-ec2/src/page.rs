//! Paging, as EC2 does it.

/// The most values one filter takes.
pub const MAX_FILTER_VALUES: usize = 200;

/// Which page is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// At most this many items (EC2: 5 to 1000); `None` leaves it to EC2. Not together with ids.
    pub max_results: Option<u32>,
    /// The token of the page before.
    pub token: Option<String>,
}

/// A page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The items; may be empty although more pages follow.
    pub items: Vec<T>,
    /// Present when more pages follow.
    pub next: Option<String>,
}
