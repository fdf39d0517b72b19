"""Faucet, a controller that implements VLANs and routing from a configuration file."""
import os

from lib import lab
from lib.pypi import programs

VERSION = "1.10.10"


def faucet():
    """The path of the program, in a virtual environment below target/."""
    # Its build needs an old version of setuptools.
    build, faucet = ["setuptools<70", "wheel", "pbr"], ["--no-build-isolation", "faucet==" + VERSION]
    program = os.path.join(programs("faucet", build, faucet, timeout=600), "faucet")
    lab.sh(program, "--version")
    return program


class Faucet:
    """A running controller with these settings (YAML)."""

    def __init__(self, program, directory, settings, port):
        self.port, self.out = port, os.path.join(directory, "faucet.log")
        files = {"FAUCET_CONFIG": "faucet.yaml", "FAUCET_LOG": "faucet.log", "FAUCET_EXCEPTION_LOG": "faucet-exception.log"}
        # Faucet starts osken-manager, which is in the same directory.
        path = os.path.dirname(program) + ":" + os.environ["PATH"]
        env = dict(os.environ, PATH=path, FAUCET_PROMETHEUS_PORT=str(port + 1), FAUCET_PROMETHEUS_ADDR="127.0.0.1",
                   FAUCET_CONFIG_STAT_RELOAD="0", **{name: os.path.join(directory, file) for name, file in files.items()})
        with open(env["FAUCET_CONFIG"], "w") as f:
            f.write(settings)
        with open(os.path.join(directory, "ryu.conf"), "w") as f:
            f.write("[DEFAULT]\n")
        with open(os.path.join(directory, "faucet-output.log"), "w") as log:
            lab.spawn([program, "--ryu-config-file=%s/ryu.conf" % directory, "--ryu-ofp-listen-host=127.0.0.1",
                       "--ryu-ofp-tcp-listen-port=%d" % port], env=env, stdout=log, stderr=log)

    def log(self):
        try:
            with open(self.out) as f:
                return f.read()
        except FileNotFoundError:
            return ""
