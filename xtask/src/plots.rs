//! The plots of the recorded results, as SVG files beside the records.
//!
//! A plot has a white background, so that it is readable on light and on dark pages.

mod bars;
mod lines;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;

use crate::record::{self, Load, Record, Volumes};
use bars::latency;
use lines::{Panel, Series, panels};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PlotsArgs {
    /// Directory of the records and the plots
    #[arg(long, default_value = "docs/plots", value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

const INK: RGBColor = RGBColor(31, 35, 40);
const GRID: RGBColor = RGBColor(208, 215, 222);
/// Colours that readers with colour blindness can tell apart.
const COLOURS: [RGBColor; 3] = [RGBColor(9, 105, 218), RGBColor(188, 76, 0), RGBColor(87, 96, 106)];
const FONT: &str = "sans-serif";
/// Sizes of text. The library divides them by 1.24 to get pixels.
const TITLE: u32 = 23;
const TEXT: u32 = 16;

type Failure = DrawingAreaErrorKind<std::io::Error>;
type Drawn = Result<(), Failure>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the plot of each record in the directory.
///
/// # Errors
/// A record cannot be read, or a plot cannot be written.
pub(crate) fn draw(dir: &Path) -> anyhow::Result<()> {
    one(dir, latency)?;
    one(dir, |record: &Volumes| {
        panels("Costs of the controller by number of volumes", &record.conditions.caption(), &volumes(record))
    })?;
    one(dir, |record: &Load| {
        panels("EC2 calls of one volume's life by load", &record.conditions.caption(), &[load(record)])
    })
}

fn one<R: Record>(dir: &Path, plot: impl Fn(&R) -> anyhow::Result<String>) -> anyhow::Result<()> {
    let Some(record) = record::read::<R>(dir)? else { return Ok(()) };
    let path = dir.join(R::NAME).with_extension("svg");
    let svg = plot(&record).with_context(|| format!("draw {}", path.display()))?;
    fs::write(&path, svg).with_context(|| format!("write {}", path.display()))
}

fn volumes(record: &Volumes) -> Vec<Panel> {
    let series = |name: &str, colour: usize, y: fn(&crate::bench::volumes::Point) -> f64| Series {
        name: name.to_owned(),
        colour: COLOURS[colour],
        points: record.points.iter().map(|point| (f64::from(point.volumes), y(point))).collect(),
    };
    let panel = |title: &str, y_title: &str, series| Panel {
        title: title.to_owned(),
        x_title: "volumes that the controller has created".to_owned(),
        y_title: y_title.to_owned(),
        series,
    };
    vec![
        panel(
            "Memory",
            "MiB",
            vec![
                series("peak while listing all volumes", 1, |p| p.list_peak),
                series("resident", 0, |p| p.resident),
                series("private", 2, |p| p.private),
            ],
        ),
        panel("Processor time of one volume's life", "milliseconds", vec![series("driver", 0, |p| p.cpu_per_life)]),
    ]
}

fn load(record: &Load) -> Panel {
    let series = |name: &str, colour: usize, y: fn(&crate::record::LoadPoint) -> f64| Series {
        name: name.to_owned(),
        colour: COLOURS[colour],
        points: record.points.iter().map(|point| (point.rate, y(point))).collect(),
    };
    Panel {
        title: String::new(),
        x_title: "lives begun each second".to_owned(),
        y_title: "calls".to_owned(),
        series: vec![
            series("create, attach, detach, spare detach, delete", 0, |p| p.mutating_per_life + p.spare_per_life),
            series("describe", 1, |p| p.describes_per_life),
        ],
    }
}

/// Formats a figure with two significant digits after a leading zero, or at most three digits.
fn figure(value: f64) -> String {
    let digits = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else if value.abs() >= 0.1 {
        2
    } else {
        3
    };
    format!("{value:.digits$}")
}

fn text(size: u32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

/// Returns the whole area of a new document, with a white background.
fn root(svg: &mut String, size: (u32, u32)) -> Result<Area<'_>, Failure> {
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    root.fill(&WHITE)?;
    Ok(root)
}

/// Draws the title and the conditions. Returns the rest of the area.
fn framed<'a>(root: &Area<'a>, title: &str, captions: &[String]) -> Result<Area<'a>, Failure> {
    root.draw_text(title, &text(TITLE), (16, 12))?;
    let mut y = 38;
    for caption in captions {
        root.draw_text(caption, &text(TEXT), (16, y))?;
        y += 18;
    }
    Ok(root.margin(y + 4, 8, 8, 16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::volumes::Point;
    use crate::record::{Conditions, Driver, Latencies, Latency, LoadPoint, OUR_NAME};

    fn conditions() -> Conditions {
        Conditions { date: "2026-11-27".into(), commit: "1a2b3c4d".into(), cores: 2, note: "A & B".into() }
    }

    fn point(volumes: u32) -> Point {
        Point {
            volumes,
            resident: 14.25,
            private: 3.5,
            cpu_per_life: 7.75,
            mutating_per_life: 4.0,
            spare_per_life: 0.25,
            describes_per_life: 0.75,
            list_cpu: 120.0,
            list_calls: 20,
            list_peak: 21.5,
            simulator_cpu_per_life: 1.0,
        }
    }

    fn driver(name: &str, median: f64) -> Driver {
        Driver {
            name: name.to_owned(),
            conditions: conditions(),
            lives: 400,
            rate: 4.0,
            rpcs: [("CreateVolume".to_owned(), Latencies { median, p99: 0.98 })].into(),
            cpu_per_life: 8.2,
            peak_memory: 18.3,
            mutating_per_life: 4.0,
            spare_per_life: 0.0,
            describes_per_life: 0.9,
        }
    }

    /// Draws the record in a directory, and returns all text of the SVG document.
    fn drawn<R: Record>(record: &R) -> String {
        let dir = tempfile::tempdir().unwrap();
        record::write(dir.path(), record).unwrap();
        draw(dir.path()).unwrap();
        let svg = fs::read_to_string(dir.path().join(R::NAME).with_extension("svg")).unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        assert_eq!(document.root_element().tag_name().name(), "svg");
        assert!(!svg.contains("href") && !svg.contains("@font-face"), "a plot needs nothing from elsewhere");
        let texts = document.descendants().filter(|node| node.tag_name().name() == "text");
        texts.filter_map(|node| node.text()).map(str::trim).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn latency_plot_shows_each_driver_with_its_conditions() {
        let text = drawn(&Latency { drivers: vec![driver(OUR_NAME, 0.125), driver("reference v1.64.0", 0.678)] });
        for shown in ["this driver: ", "reference v1.64.0", "1a2b3c4d, 2 cores, 2026-11-27, A & B", "400 lives"] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
        assert!(text.contains("0.12 / 0.98 s") && text.contains("0.68 / 0.98 s"), "{text}");
    }

    #[test]
    fn volumes_plot_shows_the_last_figures_and_units() {
        let text = drawn(&Volumes { conditions: conditions(), points: vec![point(1_000), point(20_000)] });
        for shown in ["14.2", "3.50", "21.5", "7.75", "MiB", "milliseconds", "20,000", "1a2b3c4d"] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }

    #[test]
    fn load_plot_shows_calls_at_each_rate() {
        let point = |rate, describes_per_life| LoadPoint {
            rate,
            lives: 100,
            mutating_per_life: 4.0,
            spare_per_life: 0.21,
            describes_per_life,
            cpu_per_life: 8.0,
        };
        let text = drawn(&Load { conditions: conditions(), points: vec![point(0.25, 6.5), point(4.0, 0.66)] });
        for shown in ["lives begun each second", "4.21", "0.66"] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }

    #[test]
    fn figure_has_about_three_digits() {
        let figures = [0.0364, 0.125, 1.99, 18.34, 123.4].map(figure);
        assert_eq!(figures, ["0.036", "0.12", "1.99", "18.3", "123"]);
    }
}
