//! Listings that are read to their end.

use ebs_ec2::{Page, PageRequest, Result};

/// With a length and a filter a describe draws on EC2's larger bucket (`decisions.md` D-21).
const LENGTH: u32 = 500;

/// A page of the usual length.
pub(crate) fn first_page() -> PageRequest {
    PageRequest { max_results: Some(LENGTH), token: None }
}

/// All pages, one after the other.
pub(crate) async fn all<T, F>(mut page: impl FnMut(PageRequest) -> F + Send) -> Result<Vec<T>>
where
    T: Send,
    F: Future<Output = Result<Page<T>>> + Send,
{
    let mut request = first_page();
    let mut all = Vec::new();
    loop {
        let Page { items, next } = page(request.clone()).await?;
        all.extend(items);
        if next.is_none() || next == request.token {
            return Ok(all);
        }
        request.token = next;
    }
}
