//! The server in the tests is `h2`, unmodified.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

use crate::LenientStream;

/// What the server does with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Served {
        authority: Option<String>,
        path: String,
        /// The fields other than the authority, in order.
        fields: Vec<(String, String)>,
    },
    /// The server reset the stream with this HTTP/2 error code.
    Reset(u32),
    /// The server closed the connection with this error code.
    Closed(u32),
}

const BOUND: Duration = Duration::from_secs(120);
/// The size of the pipe. It is larger than any stream of a test, so that neither side ever waits.
const PIPE: usize = 16 << 20;

/// Sends a client's bytes to the server, with or without this crate in front of it. Returns the results of the requests
/// on the first `count` streams.
pub(crate) fn answers(stream: &[u8], count: usize, is_lenient: bool) -> Vec<Answer> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(PIPE);
        client.write_all(stream).await.expect("the pipe is large");
        let answered = async {
            if is_lenient {
                both(LenientStream::new(server), client, count).await
            } else {
                both(server, client, count).await
            }
        };
        tokio::time::timeout(BOUND, answered).await.expect("all requests are answered within the bound")
    })
}

async fn both<S: AsyncRead + AsyncWrite + Unpin>(server: S, client: DuplexStream, count: usize) -> Vec<Answer> {
    let mut served = BTreeMap::new();
    let mut told = tokio::select! {
        biased;
        told = told(client, count) => told,
        () = serve(server, &mut served) => unreachable!("a server waits for its client to end"),
    };
    told.extend(served.into_iter().map(|(stream, request)| (stream, answer(&request))));
    told.into_values().collect()
}

/// Answers all requests and never returns.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(stream: S, served: &mut BTreeMap<u32, Request<()>>) {
    if let Ok(mut connection) = h2::server::handshake(stream).await {
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let (head, _body) = request.into_parts();
            served.insert(respond.stream_id().as_u32(), Request::from_parts(head, ()));
            respond.send_response(Response::new(()), true).expect("the connection lives");
        }
    }
    std::future::pending().await
}

/// Reads the server's bytes until it has answered this many requests. Returns the rejected requests.
async fn told(mut client: DuplexStream, count: usize) -> BTreeMap<u32, Answer> {
    let (mut refused, mut answered) = (BTreeMap::new(), 0);
    let last = u32::try_from(2 * count).expect("few") - 1;
    while answered < count {
        let mut head = [0; 9];
        client.read_exact(&mut head).await.expect("a frame of the server");
        let [high, middle, low, kind, _, stream @ ..] = head;
        let mut payload = vec![0; usize::try_from(u32::from_be_bytes([0, high, middle, low])).expect("short")];
        client.read_exact(&mut payload).await.expect("the frame's payload");
        let stream = u32::from_be_bytes(stream);
        let code = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().expect("four bytes"));
        match kind {
            1 => answered += 1,
            3 => {
                answered += 1;
                refused.insert(stream, Answer::Reset(code(0)));
            }
            // A graceful GOAWAY, after the last served stream, does not answer a request.
            7 if code(4) != 0 => {
                refused.insert(last + 2, Answer::Closed(code(4)));
                break;
            }
            _ => {}
        }
    }
    refused
}

fn answer(request: &Request<()>) -> Answer {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Answer::Served {
        authority: request.uri().authority().map(|authority| authority.as_str().to_owned()),
        path: request.uri().path().to_owned(),
        fields: request.headers().iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect(),
    }
}
