"""Calls a CSI driver through grpc-core (gRPC for C++ and Python), in all the ways in which it dials a unix socket: one line a
way, and status 1 unless all of them were answered.

Usage: grpcio_clients.py SOCKET [METHOD TEXT]   (the absolute path of a unix socket)

With METHOD that is called instead of a driver's services; its answer must begin with field 1, a string, and that be TEXT.
"""

import os
import sys

import grpc

DRIVER = ("/csi.v1.Identity/GetPluginInfo", "ebs.csi.aws.com", "/csi.v1.Controller/ControllerGetCapabilities")
# A busy machine may take its time; nothing here waits for a time-out.
BOUND = 120
# Each call brings a header field of this size with a new value: together they turn the dynamic table of 4096 bytes over
# several times, the entry of the authority with it.
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
        # Messages go as the bytes that they are: no generated code.
        first, second = channel.unary_unary(method), channel.unary_unary(then)
        for i in range(CALLS):
            metadata = [("ballast", chr(ord("a") + i % 26) * BALLAST)]
            answer = first(b"", timeout=BOUND, metadata=metadata)
            # Field 1, a string: its tag, its length, which is below 128, and its bytes.
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
