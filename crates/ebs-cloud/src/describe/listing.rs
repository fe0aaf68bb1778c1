//! Pages of volumes and snapshots.
//!
//! EC2's own pages have at least five entries. For a shorter page, this module reads the whole listing and returns a
//! part, sorted by age. The page token names the last entry, so new objects do not shift the others.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ebs_ec2::{
    Ec2, Ec2Error, ErrorClass, Page, PageRequest, Result as Ec2Result, Snapshot, SnapshotQuery, Volume, VolumeQuery,
};

use crate::error::{CloudError, Result};
use crate::retry::read;
use crate::traffic::{RateLimited, pages};

const MIN_PAGE: u32 = 5;
const MAX_PAGE: u32 = 1000;
/// The page length if the caller sets none. Without one, EC2 returns everything in one reply. Thousands of volumes would
/// then need as much memory here, and gRPC clients reject a response above 4 MiB.
const DEFAULT_PAGE: u32 = 500;
/// The prefix of our own tokens. EC2's tokens never begin with it.
const OWN_TOKEN: &str = "after:";

pub(crate) trait Listed: Send + Sized {
    type Query: Sync;
    const STEP: &str;

    fn page<E: Ec2>(
        ec2: &E,
        query: &Self::Query,
        request: &PageRequest,
    ) -> impl Future<Output = Ec2Result<Page<Self>>> + Send;

    fn id_and_birth(&self) -> (&str, Option<SystemTime>);

    /// Returns false for a deleted object that EC2 still lists.
    fn exists(&self) -> bool {
        true
    }

    fn position(&self) -> Position {
        let (id, born) = self.id_and_birth();
        let age = born.and_then(|t| t.duration_since(SystemTime::UNIX_EPOCH).ok()).unwrap_or(Duration::ZERO);
        Position { micros: age.as_micros(), id: id.to_owned() }
    }
}

impl Listed for Volume {
    type Query = VolumeQuery;
    const STEP: &str = "list volumes";

    async fn page<E: Ec2>(ec2: &E, query: &VolumeQuery, request: &PageRequest) -> Ec2Result<Page<Self>> {
        ec2.describe_volumes(query, request).await
    }

    fn id_and_birth(&self) -> (&str, Option<SystemTime>) {
        (self.id.as_str(), self.created)
    }

    fn exists(&self) -> bool {
        Self::exists(self)
    }
}

impl Listed for Snapshot {
    type Query = SnapshotQuery;
    const STEP: &str = "list snapshots";

    async fn page<E: Ec2>(ec2: &E, query: &SnapshotQuery, request: &PageRequest) -> Ec2Result<Page<Self>> {
        ec2.describe_snapshots(query, request).await
    }

    fn id_and_birth(&self) -> (&str, Option<SystemTime>) {
        (self.id.as_str(), self.started)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    micros: u128,
    id: String,
}

impl Position {
    fn to_token(&self) -> String {
        format!("{OWN_TOKEN}{}:{}", self.micros, self.id)
    }

    fn from_token(token: &str) -> Option<Self> {
        let (micros, id) = token.strip_prefix(OWN_TOKEN)?.split_once(':')?;
        Some(Self { micros: micros.parse().ok()?, id: id.to_owned() })
    }
}

/// Returns a page of the objects that the query selects. With `max_entries` 0, it has at most [`DEFAULT_PAGE`] entries.
pub(crate) async fn list<T: Listed, E: Ec2>(
    limited: &Arc<RateLimited<E>>,
    query: &T::Query,
    max_entries: u32,
    token: Option<String>,
) -> Result<Page<T>> {
    let token = token.filter(|t| !t.is_empty());
    let max_entries = if max_entries == 0 { DEFAULT_PAGE } else { max_entries };
    let cut_by_us = match &token {
        Some(token) => token.starts_with(OWN_TOKEN),
        None => (1..MIN_PAGE).contains(&max_entries),
    };
    if !cut_by_us {
        return whole_page(limited, query, max_entries, token).await;
    }
    let position = |token: String| Position::from_token(&token).ok_or_else(|| CloudError::bad_page_token(&token));
    let after = token.map(position).transpose()?;
    let ec2 = &limited.for_background_read();
    let page = |request: PageRequest| async move { T::page(ec2, query, &request).await };
    let entries = read(ec2, T::STEP, || pages::all(page)).await?;
    Ok(cut(entries, after.as_ref(), max_entries))
}

async fn whole_page<T: Listed, E: Ec2>(
    limited: &Arc<RateLimited<E>>,
    query: &T::Query,
    max_entries: u32,
    mut token: Option<String>,
) -> Result<Page<T>> {
    if (1..MIN_PAGE).contains(&max_entries)
        && let Some(token) = token
    {
        // The token comes from a listing with longer pages. EC2 cannot continue it with pages of fewer than five
        // entries.
        return Err(CloudError::bad_page_token(&token));
    }
    loop {
        let request = PageRequest { max_results: Some(max_entries.min(MAX_PAGE)), token: token.clone() };
        let ec2 = limited.for_background_read();
        let page = read(&ec2, T::STEP, || T::page(&ec2, query, &request)).await;
        let page = page.map_err(|e| with_token(e, token.as_deref()))?;
        let items: Vec<T> = page.items.into_iter().filter(Listed::exists).collect();
        if !items.is_empty() || page.next.is_none() || page.next == token {
            return Ok(Page { items, next: page.next });
        }
        token = page.next;
    }
}

fn with_token(error: CloudError, token: Option<&str>) -> CloudError {
    let is_bad = |e: &Ec2Error| matches!(e.class, ErrorClass::BadToken | ErrorClass::InvalidParameter);
    match token {
        Some(token) if error.cause.as_deref().is_some_and(is_bad) => {
            CloudError { cause: error.cause, ..CloudError::bad_page_token(token) }
        }
        _ => error,
    }
}

/// Returns at most `most` entries after the position, oldest first.
fn cut<T: Listed>(mut entries: Vec<T>, after: Option<&Position>, most: u32) -> Page<T> {
    entries.retain(|e| e.exists() && after.is_none_or(|after| e.position() > *after));
    entries.sort_by_key(Listed::position);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let more = entries.len() > most;
    if more {
        entries.truncate(most);
    }
    let next = entries.last().filter(|_| more).map(|last| last.position().to_token());
    Page { items: entries, next }
}
