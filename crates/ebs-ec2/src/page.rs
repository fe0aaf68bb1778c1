//! Paging as in EC2.

/// The most values of one filter.
pub const MAX_FILTER_VALUES: usize = 200;

/// The parameters of one page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// The most items (EC2: 5 to 1000). `None`: EC2 chooses. Not together with ids.
    pub max_results: Option<u32>,
    /// The token of the previous page.
    pub token: Option<String>,
}

/// A page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The items. May be empty although more pages follow.
    pub items: Vec<T>,
    pub next: Option<String>,
}
