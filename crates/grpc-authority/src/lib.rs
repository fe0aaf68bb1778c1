//! Makes the `:authority` of local gRPC clients valid, in the byte stream, in front of an HTTP/2 server that is not to be
//! changed.
//!
//! Clients of a socket have no host to name. Many send its path, as it is or percent-encoded: grpc-go when it is given a
//! dialer of the program's own, grpc-core (C++, Python) always. The `h2` crate wants an authority of a URI (RFC 3986, 3.2) and
//! resets the streams of all others before a service sees them. Who a client says it wants to reach decides nothing on a
//! socket, so [`LenientStream`] writes a name over such a value.
//!
//! # How
//!
//! Everything is changed in place: **the stream keeps its length, its frames and their boundaries**, and each header
//! field the length of its text. So the dynamic tables of HPACK (RFC 7541) at both ends hold entries of the same sizes and
//! lose them together, a later reference by index means the new name, and no table is kept here.
//!
//! | the client's authority | becomes |
//! |---|---|
//! | one that the server takes | untouched, like all other bytes |
//! | plain text | every byte but ASCII letters, digits and dots becomes `-` |
//! | Huffman-coded | the same, and letters from the front become `~`, whose code is long, until the code has its old length |
//! | empty, as entry 1 of the static table (all of grpc-go, without a target) | an empty `host`, entry 38: as if it had none |
//!
//! Left to the server, which refuses them as before:
//! - an authority of more than 16 KiB as it lies in the stream, which is over the server's limit of all header fields;
//! - a Huffman code of more than 13 bits a byte, which no encoder chooses: it is longer than the plain text;
//! - an empty authority that is written out, and one before other fields with a colon;
//! - a field whose name is an index of the dynamic table. Encoders find the name in the static table first (grpc-go,
//!   Netty, nghttp2) or write it out (grpc-core); HPACK stays right, and the stream alone is refused;
//! - whatever is not HTTP/2. From the first byte that is wrong on, everything goes through as it is.
//!
//! # What it costs
//!
//! Bytes stay in the buffer of whoever reads. Payloads of frames without header fields are stepped over; header blocks are
//! looked at once. Only when what was read ends within an authority are its bytes kept until the rest comes: at most 16 KiB
//! and what one read brings. Nothing waits for more than the end of an authority.

mod fields;
#[cfg(test)]
mod fuzz;
mod huffman;
mod replacement;
mod rewriter;
mod stream;
#[cfg(test)]
mod tests;

pub use stream::LenientStream;
