//! The port as a driver sees it: every call goes through the weather.
//!
//! A call is sent once. On its way it may be lost, delayed, or reach EC2 when its caller has given up or died; what the
//! caller is told may be EC2's answer or that nobody knows. A call of a process that has died never returns.

mod attachments;
mod instances;
mod snapshots;
mod volumes;

use std::pin::Pin;
use std::sync::Arc;

use ebs_ec2::{Action, Ec2, Ec2Error, Result};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::field::{Deed, Field, What, made_up};
use crate::line::Line;
use crate::weather::{Fate, Reach, Told};

/// One driver's port.
#[derive(Debug)]
pub(crate) struct Link<E> {
    ec2: Arc<E>,
    field: Arc<Field>,
    line: Arc<Line>,
}

/// A call on its way; boxed, for it is large and passes through many hands.
type Sent<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// What a call is, and what it did if it succeeded.
struct Trip<T> {
    action: Action,
    /// Only a question, although the action changes things.
    dry: bool,
    fate: Option<Fate>,
    did: fn(&T, &Subject) -> What,
    subject: Subject,
}

/// What decides over the fate of a creation.
struct Creation<'a> {
    token: &'a str,
    dry: bool,
    encrypted: bool,
    source: Option<&'a str>,
}

/// Whom a call is about, for the record.
#[derive(Debug, Clone, Default)]
struct Subject {
    name: String,
    other: String,
}

impl<T> Trip<T> {
    /// A question.
    fn ask(action: Action) -> Self {
        Self { action, dry: true, fate: None, did: |_, _| What::Other, subject: Subject::default() }
    }

    /// The same with its fate decided.
    fn with(self, fate: Fate) -> Self {
        Self { fate: Some(fate), ..self }
    }

    /// A change.
    fn change(action: Action, subject: Subject, did: fn(&T, &Subject) -> What) -> Self {
        Self { action, dry: false, fate: None, did, subject }
    }
}

impl<E: Ec2> Link<E> {
    pub(crate) fn new(ec2: Arc<E>, field: Arc<Field>, line: Arc<Line>) -> Self {
        Self { ec2, field, line }
    }

    fn ec2(&self) -> Arc<E> {
        Arc::clone(&self.ec2)
    }

    /// Makes the call that `send` is.
    async fn make<T: Send + 'static>(&self, trip: Trip<T>, send: Sent<T>) -> Result<T> {
        self.line.alive().await;
        let Trip { action, dry, fate, did, subject } = trip;
        if !dry && !self.line.has_callers() {
            self.field.violated(format!(
                "D-10: driver {} begins {action} of {subject:?} although nobody waits for anything",
                self.line.id
            ));
        }
        let fate = fate.unwrap_or_else(|| self.field.fate(action));
        let sent = Instant::now();
        let carried = self.carried(action, (sent, did, subject.clone()), send);
        let answer =
            if fate.is_plain() { carried.await } else { self.through_weather(action, dry, &fate, carried).await };
        self.line.alive().await;
        self.field.tell(|| {
            let id = self.line.id;
            let told = match &answer {
                Ok(_) => "ok".to_owned(),
                Err(e) => format!("{:?} {}", e.class, e.code.as_deref().unwrap_or("")),
            };
            let after = if sent.elapsed().is_zero() { String::new() } else { format!(" after {:?}", sent.elapsed()) };
            format!("driver {id}: {action} {} {}{after}: {told}", subject.name, subject.other)
        });
        answer
    }

    /// The call itself and the record of what it did, as one future that needs no caller.
    fn carried<T: Send + 'static>(
        &self,
        action: Action,
        (sent, did, subject): (Instant, fn(&T, &Subject) -> What, Subject),
        send: Sent<T>,
    ) -> Sent<T> {
        let (field, line) = (Arc::clone(&self.field), Arc::clone(&self.line));
        Box::pin(async move {
            let answer = send.await;
            if let Ok(done) = &answer {
                let what = did(done, &subject);
                if what != What::Other {
                    field.tell(|| format!("EC2 did {action} for driver {}: {what:?}", line.id));
                    field.note(Deed { line, sent, at: Instant::now(), what });
                }
            }
            answer
        })
    }

    async fn through_weather<T: Send + 'static>(
        &self,
        action: Action,
        dry: bool,
        fate: &Fate,
        carried: Sent<T>,
    ) -> Result<T> {
        let sent = Instant::now();
        let unclear = || Ec2Error::new(action, ebs_ec2::ErrorClass::Ambiguous, "the reply was lost");
        let answer = match fate.reach {
            Reach::Never => {
                sleep(fate.before).await;
                None
            }
            Reach::Late(late) => {
                let (field, line) = (Arc::clone(&self.field), Arc::clone(&self.line));
                let due = fate.before + fate.after + late;
                self.field.dispatch(async move {
                    sleep(due).await;
                    if field.reaches(&line, sent) {
                        let _nobody_hears = carried.await;
                    }
                });
                sleep(fate.before).await;
                None
            }
            Reach::Now if dry || fate.before.is_zero() => {
                sleep(fate.before).await;
                Some(carried.await)
            }
            Reach::Now => {
                let (tell, told) = oneshot::channel();
                let (field, line, before) = (Arc::clone(&self.field), Arc::clone(&self.line), fate.before);
                self.field.dispatch(async move {
                    sleep(before).await;
                    if field.reaches(&line, sent) {
                        // The caller may be gone.
                        let _gone = tell.send(carried.await);
                    }
                });
                Some(told.await.unwrap_or_else(|_| Err(unclear())))
            }
        };
        sleep(fate.after).await;
        match (made_up(action, fate.told, self.field.planted), answer) {
            (Some(error), _) => Err(error),
            (None, Some(answer)) => answer,
            (None, None) => Err(unclear()),
        }
    }

    /// The fate of a creation. `source`: what it is to be made from.
    fn fate_of_creation(&self, action: Action, creation: &Creation<'_>) -> Fate {
        let mut fate = self.field.fate(action);
        let Creation { token, dry, encrypted, source } = *creation;
        let is_known = self.field.knows_token(token) && !self.field.looks_at_tokens_last();
        let is_idle = (fate.told == Told::NoRoom && (dry || is_known)) || (fate.told == Told::NoKey && !encrypted);
        if is_idle {
            (fate.told, fate.reach) = (Told::Answer, Reach::Now);
        }
        let source_is_new = source.is_some_and(|source| self.field.is_behind(source));
        if source_is_new && fate.told == Told::Answer {
            (fate.told, fate.reach) = (Told::NoSource, Reach::Never);
        }
        let source_is_gone = source.is_some_and(|source| self.field.is_gone(source));
        if source_is_gone && self.field.looks_at_tokens_last() && fate.told == Told::Answer {
            (fate.told, fate.reach) = (Told::NoSource, Reach::Never);
        }
        if !dry && fate.reach != Reach::Never {
            self.field.use_token(token);
        }
        fate
    }
}
