//! Replays the requests of the official sidecars, which were recorded against a real API server
//! (`scripts/record-sidecars`). The test sends them to the controller with a simulated EC2 in memory, on paused time.
//! The replay keeps the order, the overlaps, the deadlines, the secrets and the metadata, and replaces the IDs. Every
//! code and response must match the recording, and no object may remain in EC2.
//!
//! A second test repeats this for each call, with a sidecar that dies while it waits for the response, restarts and
//! repeats the call.

#[cfg(test)]
mod messages;
#[cfg(test)]
mod recording;
#[cfg(test)]
mod replay;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::recording::{End, Line, Recording};
    use crate::replay::{Death, replay};

    const RECORDINGS: [(&str, &str); 7] = [
        ("life", include_str!("recordings/life.jsonl")),
        ("snapshots", include_str!("recordings/snapshots.jsonl")),
        ("refused", include_str!("recordings/refused.jsonl")),
        ("slow", include_str!("recordings/slow.jsonl")),
        ("secrets", include_str!("recordings/secrets.jsonl")),
        ("killed", include_str!("recordings/killed.jsonl")),
        ("modify", include_str!("recordings/modify.jsonl")),
    ];

    fn recordings() -> Vec<Recording> {
        RECORDINGS.map(|(name, text)| Recording::parse(name, text)).into()
    }

    /// The recordings contain volumes for pods, expansions, snapshots, restores, clones, errors, retries of slow calls,
    /// secrets, killed sidecars and attributes classes. In the end, EC2 has no objects left.
    #[tokio::test(start_paused = true)]
    async fn official_sidecars_get_the_recorded_responses() {
        for recording in recordings() {
            replay(&recording, None).await;
        }
    }

    /// The sidecar may die at any moment between a call and its response. The driver creates no second volume or
    /// snapshot, and leaves no object in EC2.
    #[tokio::test(start_paused = true)]
    async fn restarted_sidecar_repeats_its_call_without_duplicates() {
        let mut deaths = 0;
        for recording in recordings() {
            for place in recording.mutations() {
                let took = recording.lines[place].took();
                for after in [Duration::from_millis(1), took / 2, took.saturating_sub(Duration::from_millis(1))] {
                    replay(&recording, Some(Death { place, after })).await;
                    deaths += 1;
                }
            }
        }
        assert!(deaths > 100, "only {deaths} deaths");
    }

    /// The recordings must contain calls that ended at their deadline, calls whose sidecar died, final errors, secrets,
    /// the metadata that `--extra-create-metadata` adds, and every mutating RPC.
    #[test]
    fn recordings_cover_all_required_cases() {
        let lines: Vec<_> = recordings().into_iter().flat_map(|recording| recording.lines).collect();
        for end in [End::Deadline, End::Gone] {
            assert!(lines.iter().any(|line| line.end == end), "{end:?}");
        }
        assert!(lines.iter().any(|line| line.code.as_deref() == Some("InvalidArgument")));
        for method in [
            "CreateVolume",
            "DeleteVolume",
            "ControllerPublishVolume",
            "ControllerUnpublishVolume",
            "ControllerExpandVolume",
            "ControllerModifyVolume",
            "CreateSnapshot",
            "DeleteSnapshot",
        ] {
            assert!(lines.iter().any(|line| line.method == method), "{method}");
        }
        for method in ["CreateVolume", "ControllerPublishVolume", "ControllerExpandVolume", "CreateSnapshot"] {
            let with_secret = |line: &Line| line.method == method && line.request.get("secrets").is_some();
            assert!(lines.iter().any(with_secret), "{method} with a secret");
        }
        let text = RECORDINGS.map(|(_, text)| text).concat();
        for key in ["pvc/name", "pvc/namespace", "pv/name", "volumesnapshot/name", "volumesnapshotcontent/name"] {
            assert!(text.contains(&format!("csi.storage.k8s.io/{key}")), "{key}");
        }
        assert!(!text.contains("made-up"), "a secret is recorded");
    }
}
