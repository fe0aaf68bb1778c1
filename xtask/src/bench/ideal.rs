//! The wait that no client can avoid: of a client that knows EC2's buckets and wastes no token.

/// A token bucket of EC2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bucket {
    /// Tokens of the full bucket.
    pub(super) capacity: f64,
    /// New tokens per second.
    pub(super) per_second: f64,
}

impl Bucket {
    /// Returns EC2's default for a mutating action of a life, less the fraction that another client uses.
    pub(super) fn of(action: &str, eaten: f64) -> Self {
        let capacity = match action {
            "AttachVolume" | "DetachVolume" => 50.0,
            _ => 100.0,
        };
        Self { capacity: capacity * (1.0 - eaten), per_second: 5.0 * (1.0 - eaten) }
    }

    /// Returns the wait of each arrival for its token, if they take tokens in turn. Arrivals are in seconds and sorted.
    pub(super) fn waits(self, arrivals: &[f64]) -> Vec<f64> {
        let mut tokens = self.capacity;
        let mut at = arrivals.first().copied().unwrap_or(0.0);
        let mut waits = Vec::with_capacity(arrivals.len());
        for &arrival in arrivals {
            let turn = at.max(arrival);
            tokens = (tokens + (turn - at) * self.per_second).min(self.capacity);
            at = turn;
            if tokens < 1.0 {
                at += (1.0 - tokens) / self.per_second;
                tokens = 1.0;
            }
            tokens -= 1.0;
            waits.push(at - arrival);
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bucket never holds more than its capacity.
    #[test]
    fn full_bucket_has_no_wait_and_empty_one_serves_in_turn() {
        let bucket = Bucket { capacity: 2.0, per_second: 0.5 };
        assert_eq!(bucket.waits(&[0.0, 0.0, 0.0, 0.0, 100.0]), [0.0, 0.0, 2.0, 4.0, 0.0]);
    }

    #[test]
    fn bucket_never_holds_more_than_its_capacity() {
        let bucket = Bucket { capacity: 1.0, per_second: 1.0 };
        assert_eq!(bucket.waits(&[0.0, 1_000.0, 1_000.0]), [0.0, 0.0, 1.0]);
    }

    #[test]
    fn other_client_halves_capacity_and_refill() {
        assert_eq!(Bucket::of("AttachVolume", 0.5), Bucket { capacity: 25.0, per_second: 2.5 });
        assert_eq!(Bucket::of("CreateVolume", 0.0), Bucket { capacity: 100.0, per_second: 5.0 });
    }
}
