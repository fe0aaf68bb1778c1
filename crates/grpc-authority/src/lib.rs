//! Makes the `:authority` of local gRPC clients valid, in the byte stream of HTTP/2.
