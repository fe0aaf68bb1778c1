use std::sync::atomic::{AtomicU32, Ordering};

use ebs_ec2::{NodeId, ZoneName};

use super::*;
use crate::source::{Answer, Unusable};
use crate::{BlockDevices, MetadataError};

#[derive(Debug, Default)]
struct Told {
    answer: Mutex<Option<NodeMetadata>>,
    /// How many queries time out before the source answers.
    slow: AtomicU32,
    asked: AtomicU32,
}

#[derive(Debug, Clone)]
struct Teller(SourceKind, Arc<Told>);

impl Teller {
    fn new(kind: SourceKind, answer: Option<NodeMetadata>) -> Self {
        Self(kind, Arc::new(Told { answer: Mutex::new(answer), ..Told::default() }))
    }

    fn slow(queries: u32) -> Self {
        let teller = Self::new(SourceKind::Imds, Some(machine("i-0abc", 1)));
        teller.1.slow.store(queries, Ordering::Relaxed);
        teller
    }

    fn tell(&self, answer: Option<NodeMetadata>) {
        *self.1.answer.lock().unwrap() = answer;
    }

    fn asked(&self) -> u32 {
        self.1.asked.load(Ordering::Relaxed)
    }

    fn answer(&self) -> Result<NodeMetadata, SourceError> {
        self.1.asked.fetch_add(1, Ordering::Relaxed);
        let answer = self.1.answer.lock().unwrap().clone();
        let failed = || SourceError::new(self.0, MetadataError::Missing { field: crate::Field::InstanceId });
        match self.1.slow.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Err(SourceError { may_pass: true, ..failed() }),
            Err(_) => answer.ok_or_else(failed),
        }
    }
}

impl Source for Teller {
    fn kind(&self) -> SourceKind {
        self.0
    }

    fn read(&self) -> Answer<'_> {
        Box::pin(async { self.answer() })
    }

    fn refresh<'a>(&'a self, _known: &'a NodeMetadata) -> Answer<'a> {
        self.read()
    }
}

fn machine(instance: &str, interfaces: u32) -> NodeMetadata {
    NodeMetadata {
        node: NodeId::parse(instance).unwrap(),
        instance_type: "m5.large".to_owned(),
        region: "us-west-2".to_owned(),
        zone: ZoneName::parse("us-west-2a").unwrap(),
        outpost: None,
        network_interfaces: interfaces,
        block_devices: BlockDevices::Others(interfaces),
    }
}

fn boxed(tellers: &[&Teller]) -> Vec<Box<dyn Source>> {
    tellers.iter().map(|teller| Box::new((*teller).clone()) as Box<dyn Source>).collect()
}

#[tokio::test(start_paused = true)]
async fn first_metadata_source_that_answers_is_used() {
    let silent = Teller::new(SourceKind::Imds, None);
    let first = Teller::new(SourceKind::MetadataLabeler, Some(machine("i-0abc", 1)));
    let second = Teller::new(SourceKind::Kubernetes, Some(machine("i-0abc", 2)));
    let found = Machine::find(boxed(&[&silent, &first, &second]), None).await.unwrap();
    assert_eq!(found.source(), Some(SourceKind::MetadataLabeler));
    assert_eq!(found.metadata().network_interfaces, 1);
    assert_eq!((silent.asked(), first.asked(), second.asked()), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn error_names_reason_of_each_source_when_all_fail() {
    let mut sources: Vec<Box<dyn Source>> = vec![Box::new(Unusable::new(SourceKind::Imds, MetadataError::Disabled))];
    let (silent, began) = (Teller::new(SourceKind::Kubernetes, None), Instant::now());
    sources.extend(boxed(&[&silent]));
    let error = Machine::find(sources, None).await.unwrap_err();
    assert_eq!((silent.asked(), began.elapsed()), (1, Duration::ZERO), "a permanent failure is not retried");
    let text = error.to_string();
    assert!(text.contains("imds: IMDS is disabled by AWS_EC2_METADATA_DISABLED"), "{text}");
    assert!(text.contains("; kubernetes: "), "{text}");
    assert_eq!(error.foreign(), None);
    let none = Machine::find(Vec::new(), None).await.unwrap_err().to_string();
    assert!(none.contains("--metadata-sources"), "{none}");
}

#[tokio::test(start_paused = true)]
async fn aws_region_overrides_region_of_any_source() {
    let teller = Teller::new(SourceKind::Kubernetes, Some(machine("i-0abc", 1)));
    let found = Machine::find(boxed(&[&teller]), Some("eu-north-1".to_owned())).await.unwrap();
    assert_eq!(found.metadata().region, "eu-north-1");
    assert_eq!(found.refreshed().await.region, "eu-north-1");
}

#[tokio::test(start_paused = true)]
async fn preferred_source_is_retried_with_backoff_until_it_answers() {
    let imds = Teller::new(SourceKind::Imds, None);
    let kubernetes = Teller::new(SourceKind::Kubernetes, Some(machine("i-0abc", 1)));
    let found = Machine::find(boxed(&[&imds, &kubernetes]), None).await.unwrap();
    let began = Instant::now();
    let mut asked_at = Vec::new();
    while began.elapsed() < Duration::from_mins(10) {
        let before = imds.asked();
        found.refreshed().await;
        if imds.asked() > before {
            asked_at.push(began.elapsed().as_secs());
        }
        tokio::time::advance(Duration::from_secs(5)).await;
    }
    assert_eq!(asked_at, [15, 45, 105, 225, 465]);
    imds.tell(Some(machine("i-0abc", 3)));
    tokio::time::advance(LONGEST_PAUSE).await;
    assert_eq!(found.refreshed().await.network_interfaces, 3);
    assert_eq!(found.source(), Some(SourceKind::Imds));
    // From here on, the driver queries only the preferred source.
    let asked = kubernetes.asked();
    imds.tell(Some(machine("i-0abc", 4)));
    assert_eq!(found.refreshed().await.network_interfaces, 4);
    assert_eq!(kubernetes.asked(), asked);
}

#[tokio::test(start_paused = true)]
async fn disabled_source_is_not_retried() {
    let teller = Teller::new(SourceKind::Kubernetes, Some(machine("i-0abc", 1)));
    let mut sources: Vec<Box<dyn Source>> = vec![Box::new(Unusable::new(SourceKind::Imds, MetadataError::Disabled))];
    sources.extend(boxed(&[&teller]));
    let found = Machine::find(sources, None).await.unwrap();
    tokio::time::advance(LONGEST_PAUSE).await;
    assert_eq!(found.refreshed().await.network_interfaces, 1);
    assert_eq!(found.source(), Some(SourceKind::Kubernetes));
}

#[tokio::test(start_paused = true)]
async fn metadata_of_another_instance_is_ignored() {
    let imds = Teller::new(SourceKind::Imds, None);
    let kubernetes = Teller::new(SourceKind::Kubernetes, Some(machine("i-0abc", 1)));
    let found = Machine::find(boxed(&[&imds, &kubernetes]), None).await.unwrap();
    imds.tell(Some(machine("i-0other", 3)));
    tokio::time::advance(FIRST_PAUSE).await;
    assert_eq!(*found.refreshed().await, machine("i-0abc", 1));
    kubernetes.tell(Some(machine("i-0other", 2)));
    assert_eq!(*found.refreshed().await, machine("i-0abc", 1));
}

#[tokio::test(start_paused = true)]
async fn last_metadata_is_kept_while_source_does_not_answer() {
    let teller = Teller::new(SourceKind::Imds, Some(machine("i-0abc", 2)));
    let found = Machine::find(boxed(&[&teller]), None).await.unwrap();
    teller.tell(None);
    assert_eq!(found.refreshed().await.network_interfaces, 2);
    teller.tell(Some(machine("i-0abc", 5)));
    assert_eq!(found.refreshed().await.network_interfaces, 5);
}

#[tokio::test(start_paused = true)]
async fn slow_metadata_source_delays_but_does_not_fail_the_startup() {
    let slow = Teller::slow(5);
    let found = Machine::find(boxed(&[&slow]), None).await.unwrap();
    assert_eq!((found.source(), slow.asked()), (Some(SourceKind::Imds), 6));
}

#[tokio::test(start_paused = true)]
async fn source_that_stays_slow_fails_the_startup_after_minutes() {
    let (slow, began) = (Teller::slow(u32::MAX), Instant::now());
    Machine::find(boxed(&[&slow]), None).await.unwrap_err();
    assert!(began.elapsed() <= START_WITHIN && began.elapsed() > START_WITHIN / 2, "{:?}", began.elapsed());
    assert!(slow.asked() > 10);
}

#[tokio::test(start_paused = true)]
async fn working_source_is_used_at_once_despite_a_slow_one() {
    let (slow, began) = (Teller::slow(u32::MAX), Instant::now());
    let kubernetes = Teller::new(SourceKind::Kubernetes, Some(machine("i-0abc", 1)));
    let found = Machine::find(boxed(&[&slow, &kubernetes]), None).await.unwrap();
    assert_eq!((found.source(), slow.asked()), (Some(SourceKind::Kubernetes), 1));
    assert_eq!(began.elapsed(), Duration::ZERO);
}
