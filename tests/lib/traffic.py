"""Pings through a switch, and what is missing of their replies."""
import re
import signal
import subprocess

from lib import lab


def end(ping, least=11):
    """Ends a ping, which has sent at least this many requests; returns the number of missing replies."""
    ping.send_signal(signal.SIGINT)
    out = ping.communicate(timeout=10)[0]
    sent, received = map(int, re.search(r"(\d+) packets transmitted, (\d+) received", out).groups())
    assert sent >= least, out
    # The last request may be unanswered when the ping is interrupted.
    return max(0, sent - received - 1)


class Traffic:
    """A ping every 10 ms, until `lost()` ends it and returns the number of missing replies. Each port gets these settings."""

    def __init__(self, switch, *settings):
        self.a, self.b = lab.Namespace("10.1.1.1/24"), lab.Namespace("10.1.1.2/24")
        switch.add_bridge("br0")
        for ns in (self.a, self.b):
            words = ["--", "set", "Interface", ns.port, *settings] if settings else []
            switch.vsctl("add-port", "br0", ns.port, *words)
        self.a.run("ping", "-c", "2", "-i", "0.2", "10.1.1.2")
        self.begin()

    def begin(self):
        """Starts the ping, or restarts it."""
        self.ping = self.a.spawn("ping", "-i", "0.01", "10.1.1.2", stdout=subprocess.PIPE, text=True)

    def wait_for(self, replies):
        """Waits until this many more replies have arrived."""
        wanted = self.a.received() + replies
        lab.wait_until(lambda: self.a.received() >= wanted, "%d replies" % replies)

    def lost(self):
        """Ends the ping; returns the number of missing replies."""
        return end(self.ping)


class Pings:
    """A ping every 10 ms, for at most ten minutes: later its numbers repeat. The replies are recorded in a file in `folder`."""

    # Seconds between two requests.
    EVERY = 0.01

    def __init__(self, network, address, folder):
        self.network, self.path = network, "%s/%s" % (folder, lab.unique("ping"))
        with open(self.path, "w") as file:
            self.process = network.spawn("ping", "-D", "-i", str(self.EVERY), address, stdout=file)

    def wait_for(self, replies):
        """Waits until the network has received this many more packets."""
        wanted = self.network.received() + replies
        lab.wait_until(lambda: self.network.received() >= wanted, "%d replies" % replies, 20)

    def end(self):
        """Ends the ping. Returns how many requests have no reply, though a later one has; how many replies came twice; and the longest time
        without a reply in seconds, beyond the time between two requests."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(10 * lab.PATIENCE)
        with open(self.path) as file:
            replies = re.findall(r"^\[([\d.]+)\] .*icmp_seq=(\d+) ", file.read(), re.M)
        assert len(replies) > 10, replies
        times, numbers = [float(when) for when, _ in replies], [int(number) for _, number in replies]
        missing = max(numbers) - min(numbers) + 1 - len(set(numbers))
        longest = max(after - before for before, after in zip(times, times[1:]))
        return missing, len(numbers) - len(set(numbers)), longest - self.EVERY
