"""A client and a server of HTTP/3: aioquic, from PyPI. Debian's curl and nghttpd have no HTTP/3."""
import os

from lib.pypi import programs

VERSION = "1.7.2"
SERVER = """
import asyncio, sys
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated
port, size, key, certificate = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
class Server(QuicConnectionProtocol):
    http = None
    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.http, self.received = H3Connection(self._quic), {}
        for e in self.http.handle_event(event) if self.http else ():
            if isinstance(e, DataReceived):
                self.received[e.stream_id] = self.received.get(e.stream_id, 0) + len(e.data)
            if isinstance(e, (DataReceived, HeadersReceived)) and e.stream_ended:
                uploaded = b"%d" % self.received.pop(e.stream_id, 0)
                self.http.send_headers(e.stream_id, [(b":status", b"200"), (b"uploaded", uploaded)])
                self.http.send_data(e.stream_id, bytes(size), end_stream=True)
                self.transmit()
async def main():
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    configuration.load_cert_chain(certificate, key)
    await serve("0.0.0.0", port, configuration=configuration, create_protocol=Server)
    await asyncio.Event().wait()
asyncio.run(main())
"""
CLIENT = """
import asyncio, ssl, sys
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
server, port, uploads = sys.argv[1], int(sys.argv[2]), [int(n) for n in sys.argv[3:]]
class Client(QuicConnectionProtocol):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.http, self.replies = H3Connection(self._quic), {}
    def quic_event_received(self, event):
        for e in self.http.handle_event(event):
            if not isinstance(e, (DataReceived, HeadersReceived)):
                continue
            reply = self.replies[e.stream_id]
            if isinstance(e, HeadersReceived):
                reply["headers"] = dict(e.headers)
            else:
                reply["size"] += len(e.data)
            if e.stream_ended:
                reply["done"].set()
    async def fetch(self, upload):
        stream = self._quic.get_next_available_stream_id()
        reply = self.replies[stream] = {"size": 0, "headers": {}, "done": asyncio.Event()}
        names = (b":method", b":scheme", b":authority", b":path")
        self.http.send_headers(stream, list(zip(names, (b"POST", b"https", server.encode(), b"/"))))
        self.http.send_data(stream, bytes(upload), end_stream=True)
        self.transmit()
        await reply["done"].wait()
        return b"%s %d %s" % (reply["headers"][b":status"], reply["size"], reply["headers"][b"uploaded"])
async def main():
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE)
    async with connect(server, port, configuration=configuration, create_protocol=Client) as client:
        for reply in await asyncio.gather(*map(client.fetch, uploads)):
            print(reply.decode())
asyncio.run(asyncio.wait_for(main(), 20))
"""


def python():
    """A Python with aioquic."""
    return os.path.join(programs("http3", ["aioquic==" + VERSION]), "python3")
