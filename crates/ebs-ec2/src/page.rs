//! The pages of EC2's listings.

/// The most values that one filter can have.
pub const MAX_FILTER_VALUES: usize = 200;

/// The parameters that select one page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// The most items on the page (EC2: 5 to 1000). If `None`, EC2 chooses. EC2 rejects a maximum together with ids.
    pub max_results: Option<u32>,
    /// The token that the previous page returned.
    pub token: Option<String>,
}

/// A page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The items. The list may be empty although more pages follow.
    pub items: Vec<T>,
    pub next: Option<String>,
}
