//! The parts of requests: filters, tags, numbers.

use aws_sdk_ec2::types::{Filter, ResourceType, Tag, TagSpecification};
use ebs_ec2::PageRequest;
use ebs_types::{Gib, Tags};

/// A filter that matches exactly these values: what would be a wildcard to EC2 is escaped.
pub(crate) fn filter<V: AsRef<str>>(name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Filter {
    let values = values.into_iter().map(|v| literal(v.as_ref())).collect();
    Filter::builder().name(name).set_values(Some(values)).build()
}

fn literal(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '*' | '?' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Tags for a resource that is being created; nothing when there are none.
pub(crate) fn tags_of(resource: ResourceType, tags: &Tags) -> Option<Vec<TagSpecification>> {
    let list = tag_list(tags);
    (!list.is_empty()).then(|| vec![TagSpecification::builder().resource_type(resource).set_tags(Some(list)).build()])
}

pub(crate) fn tag_list(tags: &Tags) -> Vec<Tag> {
    tags.iter().map(|(k, v)| Tag::builder().key(k).value(v).build()).collect()
}

/// A number in EC2's 32-bit fields; what is larger becomes the largest, which EC2 refuses by itself.
pub(crate) fn number(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

pub(crate) fn size(gib: Gib) -> i32 {
    number(gib.0)
}

pub(crate) fn max_results(page: &PageRequest) -> Option<i32> {
    page.max_results.map(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter value matches itself: EC2's wildcards in it are escaped.
    ///
    /// Rule: ebs-cloud.md 8, 9
    #[test]
    fn a_filter_value_matches_itself_and_nothing_else() {
        let f = filter("tag:CSIVolumeName", ["a*b?c\\d", "plain"]);
        assert_eq!(f.values(), ["a\\*b\\?c\\\\d", "plain"]);
    }

    #[test]
    fn a_number_beyond_32_bits_signed_saturates() {
        assert_eq!(number(u32::MAX), i32::MAX);
        assert_eq!(size(Gib(7)), 7);
    }
}
