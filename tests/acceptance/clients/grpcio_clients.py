"""Calls a CSI driver through grpc-core (gRPC for C++ and Python), in all ways in which it dials a unix socket. Prints one line
for each way, and exits with 1 unless all calls succeeded.

Usage: grpcio_clients.py SOCKET [METHOD TEXT]   (the absolute path of a unix socket)

With METHOD, calls this method instead of a driver's services. Its answer must begin with field 1, the string TEXT.
"""

import os
import sys

import grpc

DRIVER = ("/csi.v1.Identity/GetPluginInfo", "ebs.csi.aws.com", "/csi.v1.Controller/ControllerGetCapabilities")
# A busy machine may be slow. No test relies on this timeout.
BOUND = 120
# Each call sends a header field of this size with a new value. Together they replace all entries of the dynamic table
# (4096 bytes) several times, including the authority.
CALLS, BALLAST = 40, 500


def ways(socket):
    yield "unix:///path", f"unix://{socket}", None
    yield "unix:/path", f"unix:{socket}", None
    yield "unix:relative", f"unix:{os.path.basename(socket)}", None
    for authority in ("localhost", "csi.example:443", socket, "two words", "a:1:2", "[::1", r"\\.\pipe\csi", "/long" * 1200):
        yield f"authority {authority[:40]!r}", f"unix://{socket}", authority


def attempt(target, authority, called):
    method, text, then = called
    options = [("grpc.default_authority", authority)] if authority else []
    with grpc.insecure_channel(target, options=options) as channel:
        # Messages are raw bytes, so generated code is not needed.
        first, second = channel.unary_unary(method), channel.unary_unary(then)
        for i in range(CALLS):
            metadata = [("ballast", chr(ord("a") + i % 26) * BALLAST)]
            answer = first(b"", timeout=BOUND, metadata=metadata)
            # Field 1 is a string: tag, length (below 128) and bytes.
            if not answer.startswith(bytes([0x0A, len(text)]) + text.encode()):
                raise ValueError(f"{method} says {answer!r}")
            second(b"", timeout=BOUND, metadata=metadata)


def main():
    if len(sys.argv) not in (2, 4) or not os.path.isabs(sys.argv[1]):
        sys.exit("usage: grpcio_clients.py SOCKET [METHOD TEXT] (an absolute path)")
    socket = sys.argv[1]
    called = (sys.argv[2], sys.argv[3], sys.argv[2]) if len(sys.argv) == 4 else DRIVER
    os.chdir(os.path.dirname(socket))
    print("grpcio", grpc.__version__)
    failed = False
    for name, target, authority in ways(socket):
        try:
            attempt(target, authority, called)
            print("ok", name)
        except (grpc.RpcError, ValueError) as error:
            print(f"FAILED {name}: {error}")
            failed = True
    sys.exit(1 if failed else 0)


main()
