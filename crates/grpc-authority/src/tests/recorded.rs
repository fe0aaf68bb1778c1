//! Recorded bytes that unmodified clients sent to a server which accepted them.

use super::{Answer, answers};

/// The client, its stream, the number of its calls, and the authority that the server receives.
type Recording = (&'static str, &'static [u8], usize, Option<&'static str>);

const RECORDINGS: [Recording; 4] = [
    // The target is `\\.\pipe\csi-proxy-disk-v1`, percent-encoded and Huffman-coded.
    (
        "grpc-go 1.83, a pipe",
        include_bytes!("recorded/grpc-go-1.83-pipe.bin"),
        6,
        Some("-5C-5C.-5Cpipe-5Ccsi-proxy-disk-v1"),
    ),
    // The target is `/csi/csi.sock`, sent as it is.
    ("grpc-go 1.20, a path", include_bytes!("recorded/grpc-go-1.20-path.bin"), 6, Some("-csi-csi.sock")),
    // The client has no target and sends an empty authority.
    ("grpc-go 1.83, nothing", include_bytes!("recorded/grpc-go-1.83-empty.bin"), 6, None),
    // The target is `unix:///tmp/srv/rec.sock`, percent-encoded in plain text. The name of the field is written out.
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
