//! When a volume may be modified again (`decisions.md` D-25).

use std::time::Duration;

use ebs_ec2::{Modification, ModificationState};

/// EC2 counts modifications over this time.
const WINDOW: Duration = Duration::from_secs(24 * 3600);

/// EC2's rule, and when it lets the volume be modified again as far as the latest modification tells.
pub(super) fn when_possible(latest: Option<&Modification>) -> String {
    let rule =
        "a volume can be modified at most 4 times in 24 h, and not while an earlier modification is being optimized";
    let Some(latest) = latest else { return rule.to_owned() };
    let since = latest.started.map(|t| format!("the latest began at {}", humantime::format_rfc3339_seconds(t)));
    let again = latest.started.map(|t| humantime::format_rfc3339_seconds(t + WINDOW));
    match (&latest.state, since, again) {
        (ModificationState::Optimizing, Some(since), _) => {
            format!("{rule}; {since} and is still being optimized: try again when EC2 shows it completed")
        }
        (_, Some(since), Some(again)) => format!("{rule}; {since}: it is possible again at {again} at the latest"),
        _ => rule.to_owned(),
    }
}
