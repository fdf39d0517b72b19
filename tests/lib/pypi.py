"""Programs of PyPI, in virtual environments below target/."""
import os
import sys

from lib import lab, own_network


def programs(name, *installs, timeout=300):
    """The folder of the programs of an environment. `installs`: the arguments of consecutive calls of pip. The test is skipped if
    they cannot be installed."""
    venv = os.path.join(lab.ROOT, "target", name)
    folder, installed = os.path.join(venv, "bin"), os.path.join(venv, "installed")
    pip = own_network.of_host(os.path.join(folder, "python3"), "-m", "pip", "install", "-q")
    try:
        with lab.locked(venv):
            if not os.path.exists(installed):
                lab.sh(sys.executable, "-m", "venv", venv)
                for words in installs:
                    lab.sh(*pip, *words, timeout=timeout)
                with open(installed, "w") as f:
                    f.write("%s\n" % (installs,))
    except Exception as e:
        raise lab.Skip("%s cannot be installed from PyPI: %s" % (name, str(e)[-300:]))
    return folder
