//! Paging of lists. A page token is opaque, contains the key of the last returned item, and is valid only for one
//! query.

use sha2::{Digest as _, Sha256};

use crate::api::{Fault, Page};

use super::faults;

const MAX_PAGE: usize = 1000;
/// Minimum page size that a client can request.
const MIN_ASKED: i64 = 5;

#[derive(Debug, Clone, Copy)]
pub(super) struct PageSpec<'a> {
    /// The action's minimum page size.
    pub(super) least: i64,
    /// Whether a full page has a token even if it is the last page.
    pub(super) token_after_full_page: bool,
    pub(super) max_results: Option<i64>,
    pub(super) next_token: Option<&'a str>,
}

impl Default for PageSpec<'_> {
    fn default() -> Self {
        Self { least: MIN_ASKED, token_after_full_page: false, max_results: None, next_token: None }
    }
}

impl PageSpec<'_> {
    /// Returns the page size. Without a size or with 0 there is no limit, as in EC2. A size above the maximum becomes the
    /// maximum.
    fn size(&self) -> Result<usize, Fault> {
        match self.max_results {
            None | Some(0) => Ok(usize::MAX),
            Some(n) if n < self.least => Err(faults::bad_page_size(n, self.least, i64::MAX)),
            Some(n) => Ok(usize::try_from(n).unwrap_or(MAX_PAGE).min(MAX_PAGE)),
        }
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        self.size().map(drop)
    }

    /// Returns one page of the found objects. `scope` identifies the query: a token of another query is rejected.
    pub(super) fn cut<T>(&self, mut all: Vec<T>, scope: &str, key: impl Fn(&T) -> String) -> Result<Page<T>, Fault> {
        let size = self.size()?;
        all.sort_by_key(&key);
        if let Some(token) = self.next_token.filter(|t| !t.is_empty()) {
            let last = read_token(token, scope)?;
            all.retain(|item| key(item) > last);
        }
        let more = all.len() > size || (all.len() == size && self.token_after_full_page);
        all.truncate(size);
        let next = all.last().filter(|_| more).map(|last| write_token(scope, &key(last)));
        Ok(Page { items: all, next })
    }
}

fn seal(scope: &str, last: &str) -> String {
    hex::encode(&Sha256::digest(format!("{scope}\n{last}"))[..8])
}

fn write_token(scope: &str, last: &str) -> String {
    format!("{}{}", seal(scope, last), hex::encode(last))
}

fn read_token(token: &str, scope: &str) -> Result<String, Fault> {
    let invalid = || {
        faults::invalid_value(format!("Value ( {token} ) for parameter NextToken is invalid. The token is invalid."))
    };
    let (given, last) = token.split_at_checked(16).ok_or_else(invalid)?;
    let last = String::from_utf8(hex::decode(last).map_err(|_| invalid())?).map_err(|_| invalid())?;
    if seal(scope, &last) == given { Ok(last) } else { Err(invalid()) }
}
