//! Listings that are read to their end.

use ebs_ec2::{Page, PageRequest, Result};

/// With a length and a filter a describe draws on EC2's larger bucket.
const LENGTH: u32 = 500;

/// A request for the first page.
fn first_page() -> PageRequest {
    PageRequest { max_results: Some(LENGTH), token: None }
}

/// What all pages hold. `page` makes one call; it is not repeated here.
///
/// # Errors
/// The first error of a page; what earlier pages held is lost.
///
/// Cancellation: nothing is left behind if `page` only reads.
pub async fn all<T, F>(mut page: impl FnMut(PageRequest) -> F + Send) -> Result<Vec<T>>
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// What is listed in pages is read to its last page.
    #[tokio::test]
    async fn every_page_is_asked_for_once_until_no_token_comes_back() {
        let asked = Mutex::new(Vec::new());
        let found = all(async |request: PageRequest| {
            assert_eq!(request.max_results, Some(LENGTH));
            let token = request.token;
            let (items, next) = match token.as_deref() {
                None => (vec![1, 2], Some("second")),
                // A page may be empty though another follows.
                Some("second") => (Vec::new(), Some("third")),
                _ => (vec![3], None),
            };
            asked.lock().expect("nobody panics with it").push(token);
            Ok(Page { items, next: next.map(str::to_owned) })
        })
        .await
        .expect("no page fails");
        assert_eq!(found, [1, 2, 3]);
        let expected = [None, Some("second"), Some("third")].map(|token| token.map(str::to_owned));
        assert_eq!(asked.into_inner().expect("nobody panics with it"), expected);
    }
}
