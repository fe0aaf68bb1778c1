//! Reads all pages of a listing.

use ebs_ec2::{Page, PageRequest, Result};

/// The page length. A describe with a page length and a filter uses EC2's larger bucket.
const LENGTH: u32 = 500;

/// Returns the items of all pages, or the first error of a page. `page` makes one call, without retries.
pub async fn all<T, F>(mut page: impl FnMut(PageRequest) -> F + Send) -> Result<Vec<T>>
where
    T: Send,
    F: Future<Output = Result<Page<T>>> + Send,
{
    let mut request = PageRequest { max_results: Some(LENGTH), token: None };
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

    #[tokio::test]
    async fn all_pages_are_read_until_no_token_is_returned() {
        let asked = Mutex::new(Vec::new());
        let found = all(async |request: PageRequest| {
            assert_eq!(request.max_results, Some(LENGTH));
            let token = request.token;
            let (items, next) = match token.as_deref() {
                None => (vec![1, 2], Some("second")),
                // EC2 may return an empty page before the last one.
                Some("second") => (Vec::new(), Some("third")),
                _ => (vec![3], None),
            };
            asked.lock().expect("no test panics with it").push(token);
            Ok(Page { items, next: next.map(str::to_owned) })
        })
        .await
        .expect("no page fails");
        assert_eq!(found, [1, 2, 3]);
        let expected = [None, Some("second"), Some("third")].map(|token| token.map(str::to_owned));
        assert_eq!(asked.into_inner().expect("no test panics with it"), expected);
    }
}
