"""Where a packet goes, according to ovn-trace and according to ofproto/trace of the chassis that it passes."""
import re

# The device of the provider's network, and the logical port that it belongs to.
PROVIDER = {"external": "public-net"}


def of_ovn(c, switch, microflow, ct="new"):
    """The logical ports to which ovn-trace sends the packet."""
    text = c.central.trace(switch, microflow, "--minimal", *["--ct=" + ct] * 6)
    # Ports `…-up` lead to a router; the outputs behind the router follow in the text.
    return {name for name in re.findall(r'output\("([^"]+)"\)', text) if not name.endswith("-up")}


def without(text, name):
    """The text without each `name(...)`, and what was between its parentheses."""
    insides = []
    while (at := text.find(name + "(")) >= 0:
        depth, end = 0, at + len(name)
        while True:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
            if depth == 0:
                break
        insides.append(text[at + len(name) + 1:end - 1])
        rest = text[end:]
        if name == "tnl_push":
            # The output after the outer header is to the device that carries the tunnel's packets.
            rest = re.sub(r"^,\d+", "", rest)
        text = text[:at] + rest
    return text, insides


def of_switches(c, chassis, protocol, fields, ct="trk,new"):
    """The ports of any chassis to which the packet goes: each tunnel is followed to the next chassis. Returns their
    names, and the traces."""
    switch = chassis.switch
    flow = ",".join([protocol, *("%s=%s" % pair for pair in fields.items())])
    text = switch.appctl("ofproto/trace", "br-int", flow, *["--ct-next", ct] * 8)
    names = {number: name for name, number in re.findall(r"^\s+(\S+) \d+/(\d+):", switch.appctl("dpif/show"), re.M)}
    found = set()
    for actions in re.findall(r"^Datapath actions: (.*)$", text, re.M):
        actions, sets = without(actions, "set")
        for name, value in re.findall(r"(src|dst|ttl)=([0-9a-f:.]+)", ",".join(sets)):
            fields = {**fields, {"ttl": "nw_ttl"}.get(name, ("dl_" if value.count(":") == 5 else "nw_") + name): value}
        actions, tunnels = without(actions, "tnl_push")
        for header in tunnels:
            there, more = behind_tunnel(c, chassis, header, protocol, fields)
            found |= there
            text += more
        for other in ("ct", "userspace", "sample", "check_pkt_len"):
            actions, _ = without(actions, other)
        found |= {names[number] for number in re.findall(r"\b\d+\b", re.sub(r"recirc\(\w+\)|clone|[()]", "", actions))}
    return {PROVIDER.get(name, name) for name in found if not name.startswith("br-")}, text


def behind_tunnel(c, chassis, header, protocol, fields):
    """Continues at the chassis to which the header leads."""
    address = re.search(r"ipv4\(src=[^,]+,dst=([^,]+)", header).group(1)
    other = next(o for o in c.chassis if o.address == address)
    tunnel = other.switch.vsctl("--bare", "--columns=ofport", "find", "interface", "options:remote_ip=" + chassis.address).strip()
    key, option = re.search(r"vni=(0x[0-9a-f]+).*len=4,(0x[0-9a-f]+)", header).groups()
    inner = {**fields, "in_port": tunnel, "tun_id": key, "tun_metadata0": option, "tun_src": chassis.address, "tun_dst": address}
    return of_switches(c, other, protocol, inner)
