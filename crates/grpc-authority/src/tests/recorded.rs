//! Recorded bytes of unmodified clients, which were sent to a server that accepted them.

use super::{Answer, answers};

/// The client, its stream, the number of its calls, and the name that the server receives.
type Recording = (&'static str, &'static [u8], usize, Option<&'static str>);

const RECORDINGS: [Recording; 4] = [
    // Target `\\.\pipe\csi-proxy-disk-v1`: percent-encoded and Huffman-coded.
    (
        "grpc-go 1.83, a pipe",
        include_bytes!("recorded/grpc-go-1.83-pipe.bin"),
        6,
        Some("-5C-5C.-5Cpipe-5Ccsi-proxy-disk-v1"),
    ),
    // Target `/csi/csi.sock`, sent as it is.
    ("grpc-go 1.20, a path", include_bytes!("recorded/grpc-go-1.20-path.bin"), 6, Some("-csi-csi.sock")),
    // No target: an empty authority.
    ("grpc-go 1.83, nothing", include_bytes!("recorded/grpc-go-1.83-empty.bin"), 6, None),
    // Target `unix:///tmp/srv/rec.sock`: percent-encoded, in plain text, its name written out.
    ("grpcio 1.85, a path", include_bytes!("recorded/grpcio-1.85-path.bin"), 3, Some("tmp-2Fsrv-2Frec.sock")),
];

#[test]
fn recorded_streams_that_h2_resets_are_served() {
    for (client, stream, calls, name) in RECORDINGS {
        let alone = answers(stream, calls, false);
        assert_eq!(alone, vec![Answer::Reset(1); calls], "{client}: h2 alone");
        let served = answers(stream, calls, true);
        assert_eq!(served.len(), calls, "{client}");
        for (nth, answer) in served.iter().enumerate() {
            let Answer::Served { authority, path, .. } = answer else { panic!("{client}, call {nth}: {answer:?}") };
            assert_eq!(authority.as_deref(), name, "{client}, call {nth}");
            assert!(path.starts_with("/csi.v1."), "{client}, call {nth}: {path}");
        }
    }
}
