"""A switch in the background, as service managers start it."""
import os
import signal
import subprocess

from lib import lab


class Detached(lab.Switch):
    """sluiced with its own database, started with `--detach`; the test ends it by its pid file."""

    def __init__(self, dbdir=None):
        super().__init__(database="embedded")
        if dbdir:
            self.env["OVS_DBDIR"] = dbdir
        self.pidfile = self.dir + "/sluiced.pid"

    def launch(self, *args, env=()):
        """Runs the daemon's command line; returns exit status and standard error."""
        r = subprocess.run([self.binary(), "--pidfile", "--detach", "-vconsole:off", *args],
                           env=dict(self.env, **dict(env)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                           text=True, timeout=20)
        return r.returncode, r.stderr

    def pid(self):
        try:
            with open(self.pidfile) as f:
                return int(f.read())
        except (FileNotFoundError, ValueError):
            return None

    def end(self):
        if self.pid():
            os.kill(self.pid(), signal.SIGTERM)
            lab.wait_until(lambda: not os.path.exists(self.pidfile), "the pid file is gone")
