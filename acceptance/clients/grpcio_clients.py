"""Calls a CSI driver through grpc-core (gRPC for C++ and Python), in all the ways in which it dials a unix socket: one line a
way, and status 1 unless all of them were answered.

Usage: grpcio_clients.py SOCKET   (the absolute path of a unix socket)
"""

import os
import sys

import grpc

NAME = b"ebs.csi.aws.com"
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


def attempt(target, authority):
    options = [("grpc.default_authority", authority)] if authority else []
    with grpc.insecure_channel(target, options=options) as channel:
        # Messages go as the bytes that they are: no generated code.
        info = channel.unary_unary("/csi.v1.Identity/GetPluginInfo")
        capabilities = channel.unary_unary("/csi.v1.Controller/ControllerGetCapabilities")
        for i in range(CALLS):
            metadata = [("ballast", chr(ord("a") + i % 26) * BALLAST)]
            answer = info(b"", timeout=BOUND, metadata=metadata)
            # Field 1, a string: its tag, its length, which is below 128, and its bytes.
            if not answer.startswith(bytes([0x0A, len(NAME)]) + NAME):
                raise ValueError(f"GetPluginInfo says {answer!r}")
            capabilities(b"", timeout=BOUND, metadata=metadata)


def main():
    if len(sys.argv) != 2 or not os.path.isabs(sys.argv[1]):
        sys.exit("usage: grpcio_clients.py SOCKET (an absolute path)")
    socket = sys.argv[1]
    os.chdir(os.path.dirname(socket))
    print("grpcio", grpc.__version__)
    failed = False
    for name, target, authority in ways(socket):
        try:
            attempt(target, authority)
            print("ok", name)
        except (grpc.RpcError, ValueError) as error:
            print(f"FAILED {name}: {error}")
            failed = True
    sys.exit(1 if failed else 0)


main()
