//! Limits the length of files. (For functions, see clippy's `too_many_lines`.)

use super::Finding;
use super::source::{Source, Tree};

/// Maximum number of lines of the product part of a file, including blank lines and comments.
const MOST_LINES: usize = 500;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().filter_map(too_long).collect()
}

fn too_long(source: &Source) -> Option<Finding> {
    let lines = source.product_code().len();
    (lines > MOST_LINES).then(|| {
        Finding::new(
            &source.path,
            MOST_LINES + 1,
            format!("{lines} lines of product code, at most {MOST_LINES}"),
            "split it by subject",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_of_501_lines_is_too_long_without_its_tests() {
        let long = "\n".repeat(MOST_LINES + 1);
        assert!(too_long(&Source::new("a.rs", &long)).is_some());
        let fits = format!("{}#[cfg(test)]\nmod tests {{\n{long}}}\n", "\n".repeat(MOST_LINES));
        assert_eq!(too_long(&Source::new("a.rs", &fits)), None);
    }
}
