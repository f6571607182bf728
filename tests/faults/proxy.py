"""A proxy between Posthorn and PostgreSQL whose connections can fall silent."""

import socket
import threading

from server import free_port


class Proxy:
    """Passes on to a port; `silence` makes connections swallow or hold what is sent, and tells nobody."""

    def __init__(self, upstream):
        self.upstream = upstream
        self.port = free_port()
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.upstream))
            except OSError:
                client.close()
                continue
            self.connections.append(Connection(client, server))

    def silence(self, chosen=lambda _: True, hold=False):
        """Those that are open now and chosen; new ones are not affected. Returns how many."""
        silenced = [c for c in list(self.connections) if c.is_open and not c.is_silent and chosen(c)]
        for connection in silenced:
            connection.holds = hold
            connection.is_silent = True
        return len(silenced)

    def deliver(self):
        """What was held arrives after all."""
        for connection in list(self.connections):
            connection.deliver()

    def close(self):
        self.listener.close()
        for connection in list(self.connections):
            connection.close()


class Connection:
    """Both directions of one connection."""

    def __init__(self, client, server):
        self.client, self.server = client, server
        self.is_open, self.is_silent, self.holds = True, False, False
        self.writes = False  # those that write are told how long to wait for a lock
        self.held = []  # (where to, what)
        self.lock = threading.Lock()
        for source, target in ((client, server), (server, client)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source, target):
        while True:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            self.writes |= source is self.client and b"lock_timeout" in data
            if self.is_silent:
                with self.lock:
                    if self.holds:
                        self.held.append((target, data))
                if not data:
                    return  # the other end is not told
                continue
            if not data:
                self.close()
                return
            try:
                target.sendall(data)
            except OSError:
                self.close()
                return

    def deliver(self):
        with self.lock:
            held, self.held, self.is_silent = self.held, [], False
        for target, data in held:
            try:
                if data:
                    target.sendall(data)
                else:
                    target.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def close(self):
        self.is_open = False
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()
