//! Generates the table of flags in `docs/options.md` from the command.

use clap::Arg;
use ebs_testkit::doc_table;

use super::every_flag::{ALL_MODES, Fate, OURS, fate, flags_of};

fn line(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

fn kind(flag: &Arg) -> String {
    let names = flag.get_value_names().unwrap_or_default();
    let name = names.first().map_or("", |name| name.as_str());
    match name {
        "BOOL" => "boolean".to_owned(),
        "FORMAT" => "`text` or `json`".to_owned(),
        other => format!("`{other}`"),
    }
}

/// Returns the modes that have the flag, with a remark for each mode in which it has no effect.
fn modes(name: &str) -> String {
    let mut told = Vec::new();
    for mode in ALL_MODES {
        if let Some(flag) = flags_of(mode).iter().find(|flag| flag.get_long() == Some(name)) {
            told.push(match fate(mode, flag) {
                Fate::Effect | Fate::Refused(_) => mode.to_owned(),
                Fate::Said(_) => format!("({mode})"),
            });
        }
    }
    let idle: Vec<String> = ALL_MODES.iter().map(|mode| format!("({mode})")).collect();
    match told.join(", ") {
        all if all == ALL_MODES.join(", ") => "all modes".to_owned(),
        none if none == idle.join(", ") => "(all modes)".to_owned(),
        some => some,
    }
}

fn flags() -> String {
    let mut text = line(&["flag", "value", "default", "modes", "what it does"]) + "|---|---|---|---|---|\n";
    let mut names: Vec<Arg> = ALL_MODES.iter().flat_map(|mode| flags_of(mode)).collect();
    names.sort_by_key(|flag| flag.get_long().unwrap_or_default().to_owned());
    names.dedup_by_key(|flag| flag.get_long().unwrap_or_default().to_owned());
    for flag in &names {
        let name = flag.get_long().expect("a long flag");
        let shown = if OURS.contains(&name) { format!("`--{name}` *") } else { format!("`--{name}`") };
        let default: Vec<_> = flag.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let default = default.join(",");
        let default = if default.is_empty() { "–".to_owned() } else { format!("`{default}`") };
        let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
        text.push_str(&line(&[&shown, &kind(flag), &default, &modes(name), &help]));
    }
    text
}

/// `EBS_WRITE_DOCS=1` rewrites the table.
#[test]
fn documented_options_match_the_code() {
    doc_table::check("docs/options.md", &[("flags", flags())]);
}
