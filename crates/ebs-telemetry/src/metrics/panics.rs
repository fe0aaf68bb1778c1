//! Counts panics, each of which ends a request or a task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use component_base::metrics::{Family, Sample, float};

use super::Metrics;
use super::table;

pub(super) fn family(panics: &AtomicU64) -> Family {
    Family { desc: &table::PANICS, samples: vec![Sample::number(&[], float(panics.load(Ordering::Relaxed)))] }
}

/// Counts every panic of the process from now on. Keeps the existing panic hook. Call it once per process.
pub fn count_panics(metrics: &Arc<Metrics>) {
    let (metrics, before) = (Arc::clone(metrics), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        metrics.panics.fetch_add(1, Ordering::Relaxed);
        before(panic);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_counted_and_still_reported() {
        let metrics = Arc::new(Metrics::default());
        assert!(metrics.page().contains("\naws_ebs_csi_panics_total 0\n"), "{}", metrics.page());
        let told = Arc::new(AtomicU64::new(0));
        let (teller, default) = (Arc::clone(&told), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |panic| {
            teller.fetch_add(1, Ordering::SeqCst);
            default(panic);
        }));
        count_panics(&metrics);
        assert!(std::panic::catch_unwind(|| panic!("on purpose")).is_err());
        // Another test of this process may cause a panic, too.
        assert!(metrics.panics.load(Ordering::SeqCst) >= 1);
        assert!(told.load(Ordering::SeqCst) >= 1);
    }
}
