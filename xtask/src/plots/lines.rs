//! Plots of lines over a common horizontal axis, side by side.

use anyhow::Context;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Area, Drawn, GRID, TEXT, figure, framed, root, text};

const PANEL_WIDTH: u32 = 430;
const HEIGHT: u32 = 400;

pub(super) struct Series {
    pub(super) name: String,
    pub(super) colour: RGBColor,
    /// Points in the order of their horizontal coordinates.
    pub(super) points: Vec<(f64, f64)>,
}

pub(super) struct Panel {
    pub(super) title: String,
    pub(super) x_title: String,
    pub(super) y_title: String,
    pub(super) series: Vec<Series>,
}

/// Draws the panels side by side below one title.
pub(super) fn panels(title: &str, caption: &str, panels: &[Panel]) -> anyhow::Result<String> {
    let mut svg = String::new();
    draw(&mut svg, title, caption, panels).context("draw lines")?;
    Ok(svg)
}

fn draw(svg: &mut String, title: &str, caption: &str, panels: &[Panel]) -> Drawn {
    let width = PANEL_WIDTH * u32::try_from(panels.len().max(2)).unwrap_or(2);
    let root = root(svg, (width, HEIGHT))?;
    let rest = framed(&root, title, &[caption.to_owned()])?;
    for (panel, area) in panels.iter().zip(rest.split_evenly((1, panels.len()))) {
        draw_panel(&area, panel)?;
    }
    root.present()
}

fn draw_panel(area: &Area<'_>, panel: &Panel) -> Drawn {
    let points = panel.series.iter().flat_map(|series| &series.points);
    let (right, top) = points.fold((0.0, 0.0), |(right, top): (f64, f64), (x, y)| (right.max(*x), top.max(*y)));
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, text(TEXT + 2))
        .margin_right(16)
        .set_label_area_size(LabelAreaPosition::Left, 56)
        .set_label_area_size(LabelAreaPosition::Bottom, 42)
        .build_cartesian_2d(0.0..(right * 1.12).max(f64::EPSILON), 0.0..(top * 1.45).max(f64::EPSILON))?;
    let number = |value: &f64| grouped(*value);
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().light_line_style(WHITE).bold_line_style(GRID).axis_style(GRID).label_style(text(TEXT));
    mesh.x_labels(6).x_label_formatter(&number).y_labels(6).y_label_formatter(&number);
    mesh.x_desc(&panel.x_title).y_desc(&panel.y_title).draw()?;
    for Series { name, colour, points } in &panel.series {
        let line = chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
        let colour = *colour;
        line.label(name).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
        // The figures of all points would overlap, so only the last point of a line has its figure.
        let label = text(TEXT).pos(Pos::new(HPos::Right, VPos::Bottom));
        let last = |&(x, y): &(f64, f64)| EmptyElement::at((x, y)) + Text::new(figure(y), (0, -5), label.clone());
        chart.draw_series(points.last().map(last))?;
    }
    if panel.series.len() > 1 {
        let all = panel.series.iter().flat_map(|series| &series.points);
        let rises = all.max_by(|a, b| a.1.total_cmp(&b.1)).is_some_and(|(x, _)| *x > right / 2.0);
        let position = if rises { SeriesLabelPosition::UpperLeft } else { SeriesLabelPosition::UpperRight };
        let mut legend = chart.configure_series_labels();
        legend.position(position).label_font(text(TEXT)).background_style(WHITE.mix(0.9)).draw()?;
    }
    Ok(())
}

/// Formats a number of an axis, with a comma for thousands.
fn grouped(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text.strip_suffix("000") {
        Some(thousands) if !thousands.is_empty() => format!("{thousands},000"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_numbers_are_short_and_group_thousands() {
        assert_eq!(
            [0.0, 0.5, 12.0, 500.0, 5_000.0, 20_000.0].map(grouped),
            ["0", "0.5", "12", "500", "5,000", "20,000"]
        );
    }
}
