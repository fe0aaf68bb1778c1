//! Makes the `:authority` of local gRPC clients valid, in the byte stream, in front of an unmodified HTTP/2 server.
//!
//! A client of a socket has no host name to send. Many clients send the path of the socket, as it is or
//! percent-encoded: grpc-go if the program passes its own dialer, grpc-core (C++, Python) always. The `h2` crate resets
//! the stream of a request without a valid authority (RFC 3986, section 3.2) before a service sees the request. The
//! authority has no meaning on a socket, so [`LenientStream`] replaces an invalid one with a valid name.
//!
//! All changes are in place: **the stream keeps its length, its frames and their boundaries**, and each header field
//! keeps the length of its text. So HPACK's dynamic tables (RFC 7541) at both ends evict the same entries. A later
//! reference by index refers to the new name, so this crate needs no table.
//!
//! | the client's authority | result |
//! |---|---|
//! | valid for the server | unchanged, like all other bytes |
//! | plain text | every byte except ASCII letters, digits and dots becomes `-` |
//! | Huffman-coded | as for plain text; then bytes from the front become `~`, whose code is long, until the code has its old length |
//! | empty, as entry 1 of the static table (sent by grpc-go without a target) | an empty `host`, entry 38, as if the client had sent no authority |
//!
//! The server still rejects these cases, which remain unchanged:
//! - an authority of more than 16 KiB in the stream, which exceeds the server's limit for all header fields;
//! - a Huffman code of more than 13 bits a byte, which no encoder chooses, because it is longer than the plain text;
//! - an empty authority that is written out, or that precedes other fields with a colon;
//! - a field whose name is an index of the dynamic table. Encoders find the name in the static table first (grpc-go,
//!   Netty, nghttp2) or write it out (grpc-core). HPACK remains consistent, and the server rejects only that stream;
//! - everything that is not HTTP/2. From the first invalid byte on, all bytes pass unchanged.
//!
//! The stream keeps bytes only if a read ends within an authority: at most 16 KiB and the bytes of that read.

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
