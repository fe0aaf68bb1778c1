//! Computes the wait that no client can avoid: the wait of an ideal client, which knows the state of EC2's buckets and
//! wastes no token.

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bucket {
    capacity: f64,
    per_second: f64,
}

impl Bucket {
    /// Returns EC2's default bucket for a mutating action of a volume lifecycle, minus the fraction that another client
    /// uses.
    pub(super) fn new(action: &str, eaten: f64) -> Self {
        let capacity = if ["AttachVolume", "DetachVolume"].contains(&action) { 50.0 } else { 100.0 };
        Self { capacity: capacity * (1.0 - eaten), per_second: 5.0 * (1.0 - eaten) }
    }

    /// Returns how long each arrival waits for its token if the arrivals take tokens in order. `arrivals` contains
    /// sorted times in seconds.
    pub(super) fn waits(self, arrivals: &[f64]) -> Vec<f64> {
        let mut tokens = self.capacity;
        let mut at = arrivals.first().copied().unwrap_or(0.0);
        let wait = |&arrival: &f64| {
            let turn = at.max(arrival);
            tokens = (tokens + (turn - at) * self.per_second).min(self.capacity);
            at = turn;
            if tokens < 1.0 {
                at += (1.0 - tokens) / self.per_second;
                tokens = 1.0;
            }
            tokens -= 1.0;
            at - arrival
        };
        arrivals.iter().map(wait).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_serves_in_order_and_never_exceeds_its_capacity() {
        let bucket = |capacity, per_second| Bucket { capacity, per_second };
        assert_eq!(bucket(2.0, 0.5).waits(&[0.0, 0.0, 0.0, 0.0, 100.0]), [0.0, 0.0, 2.0, 4.0, 0.0]);
        assert_eq!(bucket(1.0, 1.0).waits(&[0.0, 1_000.0, 1_000.0]), [0.0, 0.0, 1.0]);
        assert_eq!(Bucket::new("AttachVolume", 0.5), bucket(25.0, 2.5));
        assert_eq!(Bucket::new("CreateVolume", 0.0), bucket(100.0, 5.0));
    }
}
