//! Generates the list of exhibits, the disks that the driver must not format, in `docs/dev/museum.md`. With
//! `EBS_WRITE_DOCS=1` in the environment, the test writes the page. Without it, the test fails when the page differs
//! from the exhibits.

use ebs_testkit::doc_table;

use crate::exhibit::{Exhibit, Step, Told, size};
use crate::exhibits;

fn row(exhibit: &Exhibit) -> String {
    let made: Vec<String> = exhibit.made.iter().map(Step::words).collect();
    let told: Vec<String> = exhibit.told.iter().map(Told::words).collect();
    let cell = |text: String| text.replace('|', "\\|");
    format!(
        "| {} | {} | {} | {} |\n",
        cell(exhibit.name.to_owned()),
        size(exhibit.bytes),
        cell(made.join(", ")),
        cell(told.join(", "))
    )
}

fn table() -> String {
    let rooms = exhibits::all();
    let count: usize = rooms.iter().map(|(_, room)| room.len()).sum();
    let mut text = format!("{count} exhibits:\n");
    for (title, room) in rooms {
        text.push_str(&format!("\n### {}{}\n\n", title[..1].to_uppercase(), &title[1..]));
        text.push_str("| what | disk | made by | the refusal names |\n|---|---|---|---|\n");
        room.iter().for_each(|exhibit| text.push_str(&row(exhibit)));
    }
    text
}

#[test]
fn documentation_lists_every_museum_exhibit() {
    doc_table::check("docs/dev/museum.md", &[("exhibits", table())]);
}

/// The museum has more than forty exhibits, each with its own name.
#[test]
fn every_museum_exhibit_has_a_unique_name() {
    let rooms = exhibits::all();
    let mut names: Vec<String> = Vec::new();
    for (room, exhibits) in rooms {
        names.extend(exhibits.iter().map(|exhibit| format!("{room}: {}", exhibit.name)));
        assert!(exhibits.iter().all(|exhibit| !exhibit.told.is_empty()), "{room}: a refusal without evidence");
    }
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
    assert!(all > 40, "{all}");
}
