"""Faucet, a controller that implements VLANs and routing from a configuration file."""
import os
import sys

from lib import lab, own_network

VERSION = "1.10.10"


def faucet():
    """The path of the program, in a virtual environment below target/."""
    venv = os.path.join(lab.ROOT, "target", "faucet")
    program, pip = os.path.join(venv, "bin", "faucet"), [os.path.join(venv, "bin", "python3"), "-m", "pip", "install", "-q"]
    try:
        if not os.access(program, os.X_OK):
            lab.sh(sys.executable, "-m", "venv", venv)
            # Its build needs an old version of setuptools.
            lab.sh(*own_network.of_host(*pip), "setuptools<70", "wheel", "pbr", timeout=300)
            lab.sh(*own_network.of_host(*pip), "--no-build-isolation", "faucet==" + VERSION, timeout=600)
        lab.sh(program, "--version")
    except Exception as e:
        raise lab.Skip("faucet cannot be installed from PyPI: %s" % str(e)[-300:])
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
