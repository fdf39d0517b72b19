"""A switch that translates addresses between a client and a server."""
from lib import pair

CLIENT, SERVER, PUBLIC, VIRTUAL = "10.1.1.1", "10.1.1.2", "10.1.1.240", "10.1.1.64"
# The switch answers ARP requests for addresses that no host has: for the public address with the client's MAC address, for the
# virtual address with the server's.
ARP = """table=0,priority=20,arp,arp_op=1,arp_tpa={address},actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:{mac}->eth_src,\
load:2->NXM_OF_ARP_OP[],move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],set_field:{mac}->arp_sha,move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],\
set_field:{address}->arp_spa,IN_PORT
"""
RULES = """table=0,priority=10,arp,actions=NORMAL
table=0,priority=5,ip,actions=ct(table=1,zone=9,nat)
table=1,priority=10,in_port=1,ct_state=+trk+new,ip,actions=ct(commit,zone=9,nat({nat})),2
table=1,priority=10,in_port=1,ct_state=+trk+est,ip,actions=2
table=1,priority=10,in_port=2,ct_state=+trk+est,ip,actions=1
table=1,priority=10,in_port=2,ct_state=+trk+rel,ip,actions=1
table=1,priority=1,actions=drop
"""


def gateway(rules):
    """A switch between a client (port 1) and a server (port 2)."""
    s, client, server = pair.joined([CLIENT], [SERVER])
    mac = lambda ns: ns.run("cat", "/sys/class/net/eth0/address").strip()
    s.ofctl("add-flows", "br0", "-", input=rules + ARP.format(address=PUBLIC, mac=mac(client)) + ARP.format(address=VIRTUAL, mac=mac(server)))
    return s, client, server
