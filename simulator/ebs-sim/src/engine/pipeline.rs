//! Processes a decoded and authenticated call from HTTP or [`crate::port::SimEc2`].
//! The token bucket and the fault rules for the request come first. Then the simulator checks the caller's permissions,
//! and the state executes the call. Finally it applies the fault rules for the reply, records the call, and replies.

use std::time::{Duration, SystemTime};

use crate::api::{Call, Fault, Reply};
use crate::faults::{Arrival, Corruption, Departure, Plan};
use crate::iam::{Audit, Caller};

use super::Engine;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CallResponse {
    Delivered(Result<Reply, Fault>),
    Silence,
    Corrupted(Result<Reply, Fault>, Corruption),
}

#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) answer: CallResponse,
    /// The result before fault rules change the reply, or `None` if the request never arrived.
    pub(crate) outcome: Option<Result<(), Fault>>,
    pub(crate) arrived: SystemTime,
    pub(crate) took: Duration,
    pub(crate) faults: Vec<String>,
    /// The decisions of the shipped policies on the call, or `None` if calls are not audited.
    pub(crate) audit: Option<Audit>,
}

impl Engine {
    /// Serves one call. Once the returned future has been polled, the call is executed and recorded even if the caller
    /// drops the future: a client that disconnects does not undo its call.
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
        // The task stops early only if the runtime shuts down.
        serving.await.unwrap_or_else(|_| Served {
            answer: CallResponse::Silence,
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
                (CallResponse::Delivered(Err(fault.clone())), Some(Err(fault)), self.audit(&caller, &call))
            }
            Arrival::Lost(after) => {
                let audit = self.audit(&caller, &call);
                pause(after).await;
                (CallResponse::Silence, None, audit)
            }
        };
        let took = self.now().duration_since(arrived).unwrap_or_default();
        let served = Served { answer, outcome, arrived, took, faults: plan.kinds, audit };
        witness(&served);
        // Let other tasks run before the reply: a caller that leaves at this point never gets it.
        tokio::task::yield_now().await;
        served
    }
}

async fn depart(departure: Departure, result: Result<Reply, Fault>) -> CallResponse {
    match departure {
        Departure::Delivered => CallResponse::Delivered(result),
        Departure::Replaced(fault) => CallResponse::Delivered(Err(fault)),
        Departure::Corrupted(how) => CallResponse::Corrupted(result, how),
        Departure::Lost(after) => {
            pause(after).await;
            CallResponse::Silence
        }
    }
}

/// Waits, unless the time is zero. tokio's shortest sleep is a millisecond.
async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

impl CallResponse {
    /// Converts the value to EC2's reply. A lost or unreadable reply becomes `None`.
    pub(crate) fn into_result(self) -> Option<Result<Reply, Fault>> {
        match self {
            Self::Delivered(result) => Some(result),
            Self::Silence | Self::Corrupted(..) => None,
        }
    }
}
