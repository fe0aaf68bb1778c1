//! The way of one call through the simulated EC2, the same for HTTP and for [`crate::port::SimEc2`].
//!
//! 1. The front end decodes and authenticates.
//! 2. The token bucket of the action: an empty one refuses with `RequestLimitExceeded`, and nothing is done. It comes
//!    before the question of rights, as the gatekeeper in front of everything.
//! 3. Fault rules on the request: it is late, lost, or refused.
//! 4. The caller's rights, at the moment when the state sees the call; then the state, with dry run, validation and
//!    effects.
//! 5. Fault rules on the reply: it is late, lost, another, or unreadable.
//! 6. The front end's witness writes the call down.
//! 7. The reply leaves.

use std::time::{Duration, SystemTime};

use crate::api::{Call, Fault, Reply};
use crate::faults::{Arrival, Corruption, Departure, Plan};
use crate::iam::{Audit, Caller};

use super::Engine;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// An answer of EC2.
    Delivered(Result<Reply, Fault>),
    /// Nothing: the connection breaks.
    Silence,
    /// Something that cannot be understood.
    Corrupted(Result<Reply, Fault>, Corruption),
}

#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) answer: Answer,
    /// What EC2 itself says of it; `None`: the request never arrived.
    pub(crate) outcome: Option<Result<(), Fault>>,
    pub(crate) arrived: SystemTime,
    /// From then to the reply.
    pub(crate) took: Duration,
    /// Kinds of the faults that hit it.
    pub(crate) faults: Vec<&'static str>,
    /// What the shipped policies say of it, when calls are audited.
    pub(crate) audit: Option<Audit>,
}

impl Engine {
    /// Serves one call. Once this was polled the call is carried out and witnessed, also when the returned future is
    /// dropped: a client that hangs up takes nothing back.
    pub(crate) async fn serve(
        &self,
        caller: Caller,
        call: Call,
        witness: impl FnOnce(&Served) + Send + 'static,
    ) -> Served {
        let arrived = self.now();
        let plan = self.shared.gate.lock().admit(arrived, &call);
        if !plan.takes_time() {
            return self.carry_out((caller, call), plan, arrived, witness).await;
        }
        let engine = self.clone();
        let serving =
            self.shared.slow_calls.spawn(async move { engine.carry_out((caller, call), plan, arrived, witness).await });
        // Only a runtime that ends stops it.
        serving.await.unwrap_or_else(|_| Served {
            answer: Answer::Silence,
            outcome: None,
            arrived,
            took: Duration::ZERO,
            faults: Vec::new(),
            audit: None,
        })
    }

    async fn carry_out(
        &self,
        (caller, call): (Caller, Call),
        plan: Plan,
        arrived: SystemTime,
        witness: impl FnOnce(&Served) + Send,
    ) -> Served {
        pause(plan.before).await;
        let (answer, outcome, audit) = match plan.arrival {
            Arrival::Done => {
                let (result, audit) = self.apply(caller, call, plan.injection).await;
                pause(plan.after).await;
                let outcome = result.as_ref().map(|_| ()).map_err(Fault::clone);
                (depart(plan.departure, result).await, Some(outcome), audit)
            }
            Arrival::Refused(fault) => {
                (Answer::Delivered(Err(fault.clone())), Some(Err(fault)), self.audit(&caller, &call))
            }
            Arrival::Lost(after) => {
                let audit = self.audit(&caller, &call);
                pause(after).await;
                (Answer::Silence, None, audit)
            }
        };
        let took = self.now().duration_since(arrived).unwrap_or_default();
        let served = Served { answer, outcome, arrived, took, faults: plan.kinds, audit };
        witness(&served);
        // A reply always takes a while: others go first, and a caller that leaves meanwhile never hears of it.
        tokio::task::yield_now().await;
        served
    }
}

async fn depart(departure: Departure, result: Result<Reply, Fault>) -> Answer {
    match departure {
        Departure::Delivered => Answer::Delivered(result),
        Departure::Replaced(fault) => Answer::Delivered(Err(fault)),
        Departure::Corrupted(how) => Answer::Corrupted(result, how),
        Departure::Lost(after) => {
            pause(after).await;
            Answer::Silence
        }
    }
}

/// Waits, unless there is nothing to wait for: tokio's shortest sleep is a millisecond.
async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

impl Answer {
    /// As an answer of EC2; one that never came or cannot be read is `None`.
    pub(crate) fn into_result(self) -> Option<Result<Reply, Fault>> {
        match self {
            Self::Delivered(result) => Some(result),
            Self::Silence | Self::Corrupted(..) => None,
        }
    }
}
