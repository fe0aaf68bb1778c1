//! Selects the format for a client.

use axum::http::{HeaderMap, header};
use component_base::metrics::Format;

/// Returns the text format, unless the client asks for OpenMetrics 1.0 and does not accept plain text.
///
/// Prometheus accepts both and prefers OpenMetrics. It gets text, as from the reference: OpenMetrics writes the bounds
/// of histograms differently (`le="10.0"`), and up to version 2 Prometheus stores them as written, so that queries with
/// a bound would find nothing.
pub(super) fn format(headers: &HeaderMap) -> Format {
    let lists = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let ranges: Vec<&str> = lists.flat_map(|list| list.split(',')).filter(|range| is_wanted(range)).collect();
    let takes = |kinds: &[&str], version: &str| {
        ranges.iter().any(|range| {
            let kind = range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            kinds.contains(&kind.as_str()) && parameter(range, "version").is_none_or(|asked| asked == version)
        })
    };
    let text = takes(&["text/plain", "text/*", "*/*"], "0.0.4");
    if !text && takes(&["application/openmetrics-text"], "1.0.0") { Format::OpenMetrics } else { Format::Text }
}

/// A quality of zero excludes the format.
fn is_wanted(range: &str) -> bool {
    parameter(range, "q").and_then(|quality| quality.parse::<f64>().ok()).is_none_or(|quality| quality > 0.0)
}

fn parameter<'a>(range: &'a str, name: &str) -> Option<&'a str> {
    let mut parameters = range.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    parameters.find(|(key, _)| key.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_served_unless_client_accepts_only_open_metrics() {
        let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        let prometheus_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                            text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                            text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (accept, format) in [
            (vec![], Format::Text),
            (vec![""], Format::Text),
            (vec!["*/*"], Format::Text),
            (vec!["text/html, */*;q=0.8"], Format::Text),
            (vec![protobuf], Format::Text),
            (vec![prometheus_2], Format::Text),
            (vec![prometheus_3], Format::Text),
            (vec!["application/openmetrics-text"], Format::OpenMetrics),
            (vec!["application/openmetrics-text; version=1.0.0; charset=utf-8"], Format::OpenMetrics),
            (vec!["Application/OpenMetrics-Text;Version=\"1.0.0\""], Format::OpenMetrics),
            (vec!["application/openmetrics-text;version=1.0.0, text/plain;q=0"], Format::OpenMetrics),
            (vec!["application/openmetrics-text;version=1.0.0", "text/plain"], Format::Text),
            (vec!["application/openmetrics-text;version=2.0.0"], Format::Text),
            (vec!["application/openmetrics-text;version=1.0.0;q=0"], Format::Text),
        ] {
            let mut headers = HeaderMap::new();
            for value in &accept {
                headers.append(header::ACCEPT, value.parse().unwrap());
            }
            assert_eq!(super::format(&headers), format, "{accept:?}");
        }
    }
}
