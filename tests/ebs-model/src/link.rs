//! The EC2 port of a driver, with the faults of the run: a call may be lost, delayed, or reach EC2 after its caller has
//! given up or died. A call of a dead process never returns.

mod attachments;
mod instances;
mod snapshots;
mod volumes;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::{Action, Ec2, Ec2Error, Result};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::driver_process::DriverProcess;
use crate::fault_plan::{CallOutcome, Delivery, Response};
use crate::network::{Ec2Event, EventKind, Network, injected_error};
use crate::planted::Planted;

#[derive(Debug)]
pub(crate) struct Link<E> {
    ec2: Arc<E>,
    network: Arc<Network>,
    process: Arc<DriverProcess>,
}

/// A call in flight. Boxed because it is large and moves often.
type SentCall<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// A call, and how to record its effect if it succeeds.
struct Ec2Call<T> {
    action: Action,
    dry: bool,
    outcome: Option<CallOutcome>,
    did: fn(&T, &Subject) -> EventKind,
    subject: Subject,
}

struct Creation<'a> {
    token: &'a str,
    dry: bool,
    encrypted: bool,
    source: Option<&'a str>,
}

#[derive(Debug, Clone, Default)]
struct Subject {
    name: String,
    other: String,
}

fn of(name: impl ToString) -> Subject {
    Subject { name: name.to_string(), other: String::new() }
}

impl<T> Ec2Call<T> {
    fn ask(action: Action) -> Self {
        Self { action, dry: true, outcome: None, did: |_, _| EventKind::Other, subject: Subject::default() }
    }

    fn with(self, outcome: CallOutcome) -> Self {
        Self { outcome: Some(outcome), ..self }
    }

    fn change(action: Action, subject: Subject, did: fn(&T, &Subject) -> EventKind) -> Self {
        Self { action, dry: false, outcome: None, did, subject }
    }
}

impl<E: Ec2> Link<E> {
    pub(crate) fn new(ec2: Arc<E>, network: Arc<Network>, process: Arc<DriverProcess>) -> Self {
        Self { ec2, network, process }
    }

    fn ec2(&self) -> Arc<E> {
        Arc::clone(&self.ec2)
    }

    /// Returns a call that changes an object that EC2 may still report as unknown.
    fn change_of<T>(&self, action: Action, id: &str, did: fn(&T, &Subject) -> EventKind) -> Ec2Call<T> {
        Ec2Call::change(action, of(id), did).with(self.network.outcome_of_change(action, &[(id, "")]))
    }

    /// Makes a planted bug's call, which no request has caused, unless the process dies first.
    fn call_later(&self, delay: Duration, call: impl Future<Output = ()> + Send + 'static) {
        let process = Arc::clone(&self.process);
        self.network.dispatch(async move {
            sleep(delay).await;
            process.alive().await;
            call.await;
        });
    }

    async fn make<T: Send + 'static>(&self, ec2_call: Ec2Call<T>, send: SentCall<T>) -> Result<T> {
        self.process.alive().await;
        let Ec2Call { action, dry, outcome, did, subject } = ec2_call;
        if !dry && !self.process.has_callers() {
            self.network.violated(format!(
                "driver {} begins {action} of {subject:?} although no client waits",
                self.process.id
            ));
        }
        let outcome = outcome.unwrap_or_else(|| self.network.outcome(action));
        let sent = Instant::now();
        if self.is_refused_for_its_clock(action) {
            return Err(self.network.refusal_for_a_clock(action, self.process.id));
        }
        let carried = self.carried(action, (sent, did, subject.clone()), send);
        let answer =
            if outcome.is_plain() { carried.await } else { self.with_faults(action, dry, &outcome, carried).await };
        self.process.alive().await;
        self.network.tell(|| {
            let id = self.process.id;
            let answered = match &answer {
                Ok(_) => "ok".to_owned(),
                Err(e) => format!("{:?} {}", e.class, e.code.as_deref().unwrap_or("")),
            };
            let after = if sent.elapsed().is_zero() { String::new() } else { format!(" after {:?}", sent.elapsed()) };
            format!("driver {id}: {action} {} {}{after}: {answered}", subject.name, subject.other)
        });
        answer
    }

    /// Returns whether the caller gets EC2's error for a wrong clock. The error contains the right time. A read is
    /// repeated immediately, so its caller gets no error. A mutation is sent once: its caller gets the error, and the
    /// next call succeeds.
    fn is_refused_for_its_clock(&self, action: Action) -> bool {
        if !self.process.signs_by_a_wrong_clock() {
            return false;
        }
        if !self.network.is_planted(Planted::ClockForgotten) {
            self.process.learn_the_time();
        }
        action.mutates()
    }

    /// Combines the call and the recording of its effect in one future that does not depend on the caller.
    fn carried<T: Send + 'static>(
        &self,
        action: Action,
        (sent, did, subject): (Instant, fn(&T, &Subject) -> EventKind, Subject),
        send: SentCall<T>,
    ) -> SentCall<T> {
        let (network, process) = (Arc::clone(&self.network), Arc::clone(&self.process));
        Box::pin(async move {
            let answer = send.await;
            if let Ok(done) = &answer {
                let what = did(done, &subject);
                if what != EventKind::Other {
                    network.tell(|| format!("EC2 executed {action} for driver {}: {what:?}", process.id));
                    network.record_event(Ec2Event { process, sent, at: Instant::now(), what });
                }
            }
            answer
        })
    }

    async fn with_faults<T: Send + 'static>(
        &self,
        action: Action,
        dry: bool,
        outcome: &CallOutcome,
        carried: SentCall<T>,
    ) -> Result<T> {
        let sent = Instant::now();
        let unclear = || Ec2Error::new(action, ebs_ec2::ErrorClass::Ambiguous, "the reply was lost");
        let answer = match outcome.delivery {
            Delivery::Never => {
                sleep(outcome.before).await;
                None
            }
            Delivery::Late(late) => {
                let (network, process) = (Arc::clone(&self.network), Arc::clone(&self.process));
                let due = outcome.before + outcome.after + late;
                self.network.dispatch(async move {
                    sleep(due).await;
                    if network.reaches(&process, sent) {
                        let _nobody_hears = carried.await;
                    }
                });
                sleep(outcome.before).await;
                None
            }
            Delivery::Now if dry || outcome.before.is_zero() => {
                sleep(outcome.before).await;
                Some(carried.await)
            }
            Delivery::Now => {
                let (reply, replied) = oneshot::channel();
                let (network, process, before) = (Arc::clone(&self.network), Arc::clone(&self.process), outcome.before);
                self.network.dispatch(async move {
                    sleep(before).await;
                    if network.reaches(&process, sent) {
                        // The caller may be gone.
                        let _gone = reply.send(carried.await);
                    }
                });
                Some(replied.await.unwrap_or_else(|_| Err(unclear())))
            }
        };
        sleep(outcome.after).await;
        match (injected_error(action, outcome.response, self.network.planted), answer) {
            (Some(error), _) => Err(error),
            (None, Some(answer)) => answer,
            (None, None) => Err(unclear()),
        }
    }

    fn outcome_of_creation(&self, action: Action, creation: &Creation<'_>) -> CallOutcome {
        let mut outcome = self.network.outcome(action);
        let Creation { token, dry, encrypted, source } = *creation;
        if dry && self.network.throttles_a_dry_run() {
            (outcome.response, outcome.delivery) = (Response::Throttled, Delivery::Never);
        }
        let is_known = self.network.knows_token(token) && !self.network.looks_at_tokens_last();
        let is_idle = (outcome.response == Response::NoRoom && (dry || is_known))
            || (outcome.response == Response::NoKey && !encrypted);
        if is_idle {
            (outcome.response, outcome.delivery) = (Response::Answer, Delivery::Now);
        }
        let source_is_new = source.is_some_and(|source| self.network.is_behind(source));
        if source_is_new && outcome.response == Response::Answer {
            (outcome.response, outcome.delivery) = (Response::NoSource, Delivery::Never);
        }
        let source_is_gone = source.is_some_and(|source| self.network.facts().gone.contains(source));
        if source_is_gone && self.network.looks_at_tokens_last() && outcome.response == Response::Answer {
            (outcome.response, outcome.delivery) = (Response::NoSource, Delivery::Never);
        }
        if !dry && outcome.delivery != Delivery::Never {
            self.network.use_token(token);
        }
        outcome
    }
}
