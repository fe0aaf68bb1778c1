use super::*;

fn name() -> Write {
    Write::VolumeName("a".into())
}

fn volume() -> Object {
    Object::Volume(VolumeId::parse("vol-0123456789abcdef0").unwrap())
}

async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn describes_are_trusted_from_15_s_after_a_write() {
    let recent = RecentWrites::new();
    pass(100).await;
    assert!(recent.settled_at(&name()) <= Instant::now());
    recent.record_write(name());
    assert_eq!(recent.settled_at(&name()), Instant::now() + SETTLE);
    pass(15).await;
    assert!(recent.settled_at(&name()) <= Instant::now());
}

#[tokio::test(start_paused = true)]
async fn absence_is_proven_only_15_s_after_a_lease_term_began() {
    let recent = RecentWrites::new();
    let write = Write::SnapshotName("a".into());
    pass(100).await;
    recent.leases.record_request(Sidecar::Resizer, None);
    assert_eq!(recent.absence_proven_from(&write, Sidecar::Resizer), Instant::now() + SETTLE);
    assert!(recent.settled_at(&write) < Instant::now());
    recent.record_write(write.clone());
    assert_eq!(recent.settled_at(&write), Instant::now() + SETTLE);
}

#[tokio::test(start_paused = true)]
async fn absence_wait_starts_when_an_object_is_requested_or_seen() {
    let recent = RecentWrites::new();
    let first = recent.record_named(&volume());
    pass(10).await;
    assert_eq!(recent.record_named(&volume()), first);
    assert_eq!(recent.gone_from(&volume(), Sidecar::Provisioner), first);
    recent.record_seen(&volume());
    assert_eq!(recent.record_named(&volume()), first + Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn absence_proof_expires_when_a_creation_is_possible() {
    let recent = RecentWrites::new();
    let is_absent = || recent.is_absent(&name(), Sidecar::Provisioner);
    recent.leases.record_request(Sidecar::Provisioner, None);
    recent.record_absence(&name(), Sidecar::Provisioner, Instant::now());
    assert!(!is_absent(), "another process may have been asked a moment ago");
    pass(10).await;
    recent.leases.record_request(Sidecar::Provisioner, None);
    pass(5).await;
    recent.leases.record_request(Sidecar::Provisioner, None);
    recent.record_absence(&name(), Sidecar::Provisioner, Instant::now());
    assert!(is_absent());
    recent.record_write(name());
    assert!(!is_absent());
    for _ in 0..2 {
        pass(8).await;
        recent.leases.record_request(Sidecar::Provisioner, None);
    }
    assert!(!is_absent(), "the proof is older than the call");
    recent.record_absence(&name(), Sidecar::Provisioner, Instant::now());
    assert!(is_absent());
    pass(20).await;
    recent.leases.record_request(Sidecar::Provisioner, None);
    assert!(!is_absent(), "another process may have been asked meanwhile");
}

#[tokio::test(start_paused = true)]
async fn repeated_creation_answer_does_not_extend_the_wait() {
    let recent = RecentWrites::new();
    recent.record_made(name(), volume());
    let settled = recent.settled_at(&name());
    pass(5).await;
    recent.record_made(name(), volume());
    assert_eq!(recent.settled_at(&name()), settled);
}
