"""Calls of the stock ovs-vsctl for compare_commands: every command and output format."""

CALLS = r"""
vsctl init
sorted vsctl show
vsctl add-br br1 -- set bridge br1 datapath_type=dummy other-config:hwaddr=aa:66:aa:66:00:01
vsctl --may-exist add-br br1
vsctl add-br br1
vsctl --may-exist add-br br1 br0 5
vsctl add-br fake br0 7
vsctl --may-exist add-br fake br0 7
vsctl --may-exist add-br fake br0 8
vsctl add-br fake2 br0 4096
vsctl add-br a/b
vsctl list-br
vsctl --real list-br
vsctl --fake list-br
vsctl br-exists br1
vsctl br-exists nope
vsctl br-to-vlan fake
vsctl br-to-vlan br0
vsctl br-to-parent fake
vsctl br-to-parent br0
vsctl br-to-parent nope
vsctl br-set-external-id br1 k v
vsctl br-set-external-id fake k v
vsctl br-get-external-id br1
vsctl br-get-external-id br1 k
vsctl br-get-external-id fake k
vsctl br-set-external-id br1 k
vsctl br-get-external-id nope
vsctl add-port br1 q1 tag=5 -- set interface q1 type=dummy
vsctl --may-exist add-port br1 q1 tag=6
vsctl --may-exist add-port br0 q1
vsctl add-port fake q2 -- set interface q2 type=dummy
vsctl list-ports fake
vsctl list-ports br0
vsctl list-ports br1
vsctl list-ports nope
vsctl list-ifaces br1
vsctl list-ifaces fake
vsctl port-to-br q2
vsctl port-to-br nope
vsctl iface-to-br q2
vsctl iface-to-br nope
vsctl add-bond br1 bond0 b1 b2 lacp=active -- set interface b1 type=dummy -- set interface b2 type=dummy
vsctl --may-exist add-bond br1 bond0 b2 b1
vsctl --may-exist add-bond br1 bond0 b1 b3
vsctl --fake-iface add-bond br1 bond1 c1 c2 -- set interface c1 type=dummy -- set interface c2 type=dummy
vsctl add-bond br1 bond2 d1
vsctl add-bond-iface bond0 b3 -- set interface b3 type=dummy
vsctl --may-exist add-bond-iface bond0 b3
vsctl add-bond-iface bond0 b3
vsctl del-bond-iface bond0 b3
vsctl --if-exists del-bond-iface bond0 b3
vsctl del-bond-iface b9
vsctl port-to-br bond0
vsctl iface-to-br b1
vsctl list-ifaces br1
vsctl del-port br1 bond0
vsctl del-port br0 bond1
vsctl --with-iface del-port c1
vsctl --if-exists del-port nope
vsctl --if-exists --with-iface del-port br1 nope
vsctl del-port nope
vsctl set-controller br1 unix:$DIR/a unix:$DIR/b
vsctl --inactivity-probe=3000 set-controller br0 unix:$DIR/c
vsctl get-controller br1
vsctl get-controller br0
vsctl get-controller fake
vsctl get controller br0 inactivity_probe
vsctl set-controller br1 nonsense
vsctl del-controller br1
vsctl del-controller br0
vsctl get-controller br1
vsctl set-fail-mode br1 secure
vsctl get-fail-mode br1
vsctl set-fail-mode br1 nonsense
vsctl del-fail-mode br1
vsctl get-fail-mode br1
vsctl set-manager unix:$DIR/m unix:$DIR/n
vsctl get-manager
vsctl --inactivity-probe=2000 set-manager unix:$DIR/m
vsctl --columns=target,inactivity_probe list manager
vsctl del-manager
vsctl get-manager
vsctl set-ssl /k /c /a
vsctl get-ssl
vsctl --bootstrap set-ssl /k /c /a
vsctl get-ssl
vsctl --columns=private_key,bootstrap_ca_cert list ssl .
vsctl del-ssl
vsctl get-ssl
vsctl add-aa-mapping br1 5 6
vsctl get-aa-mapping br1
vsctl del-aa-mapping br1 5 6
vsctl get-aa-mapping br1
vsctl list-zone-tp netdev
vsctl add-zone-tp netdev zone=1 icmp_first=2
vsctl add-dp netdev
vsctl -- --id=@d create datapath datapath_version=0 -- set open_vswitch . datapaths:netdev=@d
vsctl add-zone-tp netdev zone=1 icmp_first=2 icmp_reply=3
vsctl add-zone-tp netdev zone=1 icmp_first=2
vsctl --may-exist add-zone-tp netdev zone=1 icmp_first=3
vsctl list-zone-tp netdev
vsctl list-dp-cap netdev
vsctl del-zone-tp netdev zone=1
vsctl del-zone-tp netdev zone=1
vsctl --if-exists del-zone-tp netdev zone=1
vsctl clear open_vswitch . datapaths
sorted vsctl --columns=name,ofport list interface
vsctl list bridge nope
vsctl --if-exists list bridge nope
vsctl list nonsense
sorted vsctl list b
vsctl --if-exists del-br a/b
sorted vsctl find interface type=dummy ofport>=2
sorted vsctl --columns=name find interface name!=p1 type=dummy
vsctl --columns=name find interface external_ids:lab=two
sorted vsctl --columns=name find interface external_ids{>=}lab=two
sorted vsctl --columns=name find port tag{=}[]
sorted vsctl --columns=name find port name{in}p1,p2
vsctl get interface p2 name type ofport external_ids
vsctl get interface p2 external_ids:lab
vsctl get interface p2 external_ids:nope
vsctl --if-exists get interface p2 external_ids:nope
vsctl --if-exists get interface nope name
vsctl get interface nope name
vsctl get interface p2 nope
vsctl get bridge br0 _uuid
vsctl --id=@x get bridge br0 -- list bridge @x
vsctl set interface p2 external_ids:a=1 external_ids:b="two words" mtu_request=1400
vsctl set interface p2 external_ids={c=3,d=4}
vsctl get interface p2 external_ids
vsctl set interface p2 nope=1
vsctl set interface p2 ofport_request=nope
vsctl set interface p2 ofport_request=99999
vsctl --if-exists set interface nope mtu_request=1
vsctl set interface nope mtu_request=1
vsctl set bridge br0 other-config:x-y=5 -- get bridge br0 other_config:x-y -- remove bridge br0 other_config x-y
vsctl add interface p2 external_ids e=5
vsctl add port p2 trunks 5 6
vsctl add port p2 trunks 4096
vsctl get port p2 trunks
vsctl remove port p2 trunks 5
vsctl remove interface p2 external_ids e c=9
vsctl --if-exists remove interface nope external_ids e
vsctl clear port p2 trunks
vsctl clear bridge br0 name
vsctl --if-exists clear port nope trunks
vsctl get port p2 trunks
vsctl create queue dscp=5
vsctl create qos type=x queues:1=@q
vsctl -- --id=@q create queue dscp=3 -- --id=@p create qos type=x queues:1=@q -- set port p2 qos=@p
vsctl --columns=type,other_config list qos
vsctl --columns=dscp find queue dscp=3
vsctl clear port p2 qos -- --all destroy qos -- --all destroy queue
vsctl destroy queue nope
vsctl --if-exists destroy queue 01234567-0123-0123-0123-0123456789ab
vsctl destroy queue 01234567-0123-0123-0123-0123456789ab
vsctl -- --id=@m create mirror name=m1 select_all=true -- set bridge br1 mirrors=@m
vsctl --columns=name,select_all list mirror m1
vsctl clear bridge br1 mirrors
vsctl wait-until bridge br1 name=br1
vsctl wait-until bridge br1 name=br2 -- --nonsense
vsctl -t 1 wait-until bridge br1 name=br2
vsctl -t 1 wait-until bridge nope
vsctl --dry-run del-br br1
vsctl --no-wait --dry-run add-br br9 -- list-br
vsctl --oneline list-br -- list-ports br1
vsctl --oneline get interface p2 name type -- list-br
vsctl comment hello -- list-br
vsctl
vsctl nonsense
vsctl --nonsense list-br
vsctl list-br extra
vsctl add-port br0
vsctl list-br -- nonsense
vsctl --if-exists list-br
vsctl -vconsole:off list-br
vsctl --db=unix:$DIR/nobody.sock -t 1 list-br
vsctl -t nope list-br
vsctl -f nonsense list bridge
vsctl -d nonsense list bridge
"""

END = r"""
vsctl del-br fake
vsctl del-br br1
vsctl --if-exists del-br br1
vsctl del-br br1
vsctl emer-reset
vsctl list-br
sorted vsctl show
"""

FORMATS = ["table", "list", "html", "csv", "json"]
DATA = ["string", "bare", "json"]
TABLES = ["--columns=name,ofport,external_ids,mac list interface p1 p2", "--columns=name,tag,trunks list port p2", "list qos",
          "--columns=name,nope list port", "--columns=name,protocols,other_config find bridge name=br0"]


def formats():
    out = ["vsctl -f %s -d %s %s" % (f, d, t) for f in FORMATS for d in DATA for t in TABLES]
    out += ["vsctl %s %s" % (option, t) for option in ("--bare", "--no-headings", "--pretty -f json") for t in TABLES]
    return out
