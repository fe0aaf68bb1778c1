//! The plot of added latencies: a bar for each RPC and driver.

use anyhow::Context;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{COLOURS, Drawn, GRID, TEXT, figure, framed, root, text};
use crate::bench::RPCS;
use crate::record::{Driver, Latency};

const WIDTH: u32 = 860;
/// Height of a bar, and the space between the RPCs, in pixels.
const BAR: u32 = 22;
const GAP: u32 = 14;
/// Lower edge of the visible part of a bar.
const BAR_INK: f64 = 20.0;

/// Draws the median as a solid bar and the 99th percentile as a light one. The end of each bar has its figures.
pub(super) fn latency(record: &Latency) -> anyhow::Result<String> {
    let mut svg = String::new();
    draw(&mut svg, record).context("draw bars")?;
    Ok(svg)
}

fn caption(driver: &Driver) -> String {
    format!(
        "{}: {} lives, {} begun each second; {}",
        driver.name,
        driver.lives,
        driver.rate,
        driver.conditions.caption()
    )
}

fn draw(svg: &mut String, record: &Latency) -> Drawn {
    let mut captions =
        vec!["Time that a driver adds to EC2's own time. Solid: median. Light: 99th percentile.".to_owned()];
    captions.extend(record.drivers.iter().map(caption));
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let drivers = count(record.drivers.len());
    let rows = count(RPCS.len()) * (drivers * BAR + GAP);
    let root = root(svg, (WIDTH, rows + 100 + 18 * drivers))?;
    let area = framed(&root, "Added latency of each call", &captions)?;
    let all = record.drivers.iter().flat_map(|driver| driver.rpcs.values());
    let longest = all.fold(0.1, |longest: f64, latencies| longest.max(latencies.p99));
    let mut chart = ChartBuilder::on(&area)
        .set_label_area_size(LabelAreaPosition::Left, 190)
        .set_label_area_size(LabelAreaPosition::Bottom, 42)
        .build_cartesian_2d(0.0..longest * 1.4, 0.0..f64::from(rows))?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh().disable_y_axis().x_desc("seconds").light_line_style(WHITE).bold_line_style(GRID);
    mesh.axis_style(GRID).label_style(text(TEXT)).draw()?;
    // The vertical axis points upwards, and the first RPC is at the top.
    let mut top = f64::from(rows) - f64::from(GAP) / 2.0;
    for rpc in RPCS {
        let (x, y) = chart.backend_coord(&(0.0, top - f64::from(drivers * BAR) / 2.0));
        root.draw(&Text::new(rpc, (x - 8, y), text(TEXT).pos(Pos::new(HPos::Right, VPos::Center))))?;
        for (driver, colour) in record.drivers.iter().zip(COLOURS) {
            if let Some(latencies) = driver.rpcs.get(rpc) {
                let bar = |end: f64| [(0.0, top - 2.0), (end.max(0.0), top - BAR_INK)];
                chart.draw_series([
                    Rectangle::new(bar(latencies.p99), colour.mix(0.35).filled()),
                    Rectangle::new(bar(latencies.median), colour.filled()),
                ])?;
                let (x, y) = chart.backend_coord(&(latencies.p99.max(0.0), top - BAR_INK / 2.0));
                let label = format!("{} / {} s, {}", figure(latencies.median), figure(latencies.p99), driver.name);
                root.draw(&Text::new(label, (x + 6, y), text(TEXT).pos(Pos::new(HPos::Left, VPos::Center))))?;
            }
            top -= f64::from(BAR);
        }
        top -= f64::from(GAP);
    }
    root.present()
}
