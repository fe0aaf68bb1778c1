//! A whole run from one seed: setup, faults, the end of the faults, and the final checks.

use std::fmt;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ebs_ec2::Ec2;
use ebs_sim::port::SimEc2;

use crate::driver_process::lock;
use crate::rng::Rng;
use crate::world::{Checked, Made, Options, Violation, World};

/// Futures are large in an unoptimised build, especially the SDK's.
const STACK: usize = 32 << 20;

/// A violated rule.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The violated rule and the observation.
    pub rule: String,
    /// The events, one per line, with times in seconds since the start.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.rule)?;
        for line in &self.trace {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}

/// Runs one seed over the port, without an SDK, in a new runtime with paused time. Returns the events, one per line.
/// Needs a large stack in an unoptimised build, as [`run_seeds`] provides.
pub fn run_on_port(seed: u64, options: &Options) -> Result<Vec<String>, Failure> {
    caught(seed, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without threads starts");
        runtime.block_on(run(seed, options, |sim| Box::pin(async move { Arc::new(sim) })))
    })
}

/// Runs a seed and converts a panic to a failure with the seed.
pub fn caught(seed: u64, run: impl FnOnce() -> Result<Vec<String>, Failure>) -> Result<Vec<String>, Failure> {
    std::panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text =
            text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic without a message");
        Err(Failure { seed, rule: format!("the run panicked: {text}"), trace: Vec::new() })
    })
}

/// Runs seeds with `one` on several threads, until all have run or `is_over` holds for the failures so far. Returns the
/// failures, lowest seed first, and the number of runs.
pub fn run_seeds(
    threads: usize,
    seeds: Range<u64>,
    is_over: impl Fn(&[Failure]) -> bool + Sync,
    one: impl Fn(u64) -> Option<Failure> + Sync,
) -> (Vec<Failure>, u64) {
    let (next, failed) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || {
                while !is_over(&lock(&failed)) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let failure = one(seed);
                    lock(&failed).extend(failure);
                }
            });
            thread.expect("a thread starts");
        }
    });
    let mut failed = std::mem::take(&mut *lock(&failed));
    failed.sort_by_key(|failure: &Failure| failure.seed);
    (failed, next.into_inner().min(seeds.end) - seeds.start)
}

/// Runs one seed on the simulated EC2 and returns the events, one per line. `client` creates the EC2 client of each
/// driver process. Needs a current-thread runtime with paused time.
pub async fn run<E: Ec2>(
    seed: u64,
    options: &Options,
    client: impl Fn(SimEc2) -> Made<E> + Send + 'static,
) -> Result<Vec<String>, Failure> {
    let mut rng = Rng::new(seed);
    let mut world = World::begin(&mut rng, seed, options, Box::new(client)).await;
    match world.live().await {
        Ok(()) => Ok(world.trace),
        Err(Violation(rule)) => {
            world.tell("-- broken");
            Err(Failure { seed, rule, trace: world.trace })
        }
    }
}

impl<E: Ec2> World<E> {
    async fn live(&mut self) -> Checked {
        let steps = self.rng.between(12, 45);
        for _ in 0..steps {
            self.step().await?;
            let pause = self.pause();
            self.pass(pause).await?;
        }
        self.end_faults();
        self.settle_down().await?;
        self.take_all_down().await
    }
}
