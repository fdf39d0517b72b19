"""The calls that are compared with the stock switch, in order: they build, change and remove one small network.

Time is stopped early, so that ages and timeouts are equal on both sides. See compare_run for the notation.
"""
from lib.compare_run import Call

EMPTY = r"""
vsctl list-br
sorted vsctl show
appctl ofproto/list
appctl dpif/show
appctl dpctl/dump-dps
vsctl br-exists br0
vsctl get open_vswitch . dpdk_initialized
db list-dbs $DB
? db get-schema-version $DB
db get-schema-version $DB nodb
/^\s\s(version|list-commands|exit|vlog/|coverage/show|memory/show|dpif/show$|dpif/dump-flows|fdb/|ofproto/(list|trace)\b) appctl list-commands
/^\s\s(dpctl/(show|dump-dps|dump-flows|del-flows)|dpif-netdev/pmd-stats|upcall/show|revalidator/(wait|purge)|time/) appctl list-commands
/^\s\s(netdev-dummy/(receive|set-admin-state)|bridge/dump-flows) appctl list-commands
appctl version
"""

BRIDGES = r"""
vsctl add-br br0 -- set bridge br0 datapath_type=dummy fail_mode=secure other-config:hwaddr=aa:66:aa:66:00:00 protocols=[OpenFlow10,OpenFlow13]
vsctl add-port br0 p1 -- set interface p1 type=dummy ofport_request=1
vsctl add-port br0 p2 -- set interface p2 type=dummy ofport_request=2
vsctl add-port br0 p3 -- set interface p3 type=dummy ofport_request=3
vsctl add-port br0 p4 -- set interface p4 type=dummy ofport_request=40 -- set interface p4 external-ids:lab=four
vsctl add-br br0
vsctl --may-exist add-br br0
vsctl add-port br0 p1
vsctl --may-exist add-port br0 p1
vsctl add-port nobr p9
vsctl list-br
vsctl list-ports br0
vsctl list-ifaces br0
vsctl list-ports nobr
vsctl port-to-br p2
vsctl port-to-br nope
vsctl iface-to-br p3
vsctl iface-to-br nope
vsctl br-exists br0
vsctl del-port nope
vsctl --if-exists del-port nope
vsctl del-br nope
vsctl --if-exists del-br nope
vsctl wait-until interface p1 ofport=1
vsctl wait-until bridge br0 fail_mode=secure
sorted /^\s*(Bridge|Port|Interface|type|fail_mode|datapath_type|options) vsctl show
"""

COLUMNS = r"""
vsctl get bridge br0 name datapath_type fail_mode datapath_id protocols
vsctl get interface p1 ofport type admin_state link_state error mac_in_use
vsctl get interface p1 mtu mtu_request ifindex link_speed duplex
vsctl get interface p4 ofport external_ids:lab ofport_request
vsctl get interface br0 ofport type mac_in_use
vsctl get interface p1 nocolumn
vsctl get interface nope ofport
vsctl get interface p4 external_ids:none
vsctl --if-exists get interface p4 external_ids:none
~ vsctl get interface p2 statistics
~ vsctl get interface p2 status
vsctl get port p1 tag trunks vlan_mode
vsctl --columns=name,ofport,type,error list interface p1 p2
vsctl --format=csv --no-headings --columns=name,ofport find interface ofport=40
vsctl --format=json --columns=name,admin_state find interface name=p3
vsctl --columns=name find interface type=nonsense
sorted vsctl --bare --columns=name find port name!=br0
vsctl set bridge br0 external-ids:a=b external-ids:c=d
vsctl get bridge br0 external_ids
vsctl br-set-external-id br0 e f
vsctl br-get-external-id br0
vsctl br-get-external-id br0 e
vsctl remove bridge br0 external-ids a
vsctl add bridge br0 external-ids a=z
vsctl clear bridge br0 external-ids
vsctl get bridge br0 external_ids
vsctl set interface p1 mtu_request=2000
~ vsctl get interface p1 mtu mtu_request
vsctl clear interface p1 mtu_request
~ vsctl get interface p1 mtu mtu_request
vsctl set port p2 tag=10
vsctl set port p3 trunks=10,20
vsctl set port p2 tag=4096
vsctl set port p2 vlan_mode=nonsense
vsctl set bridge br0 nocolumn=1
vsctl set bridge br0 fail_mode=7up
vsctl get-fail-mode br0
vsctl set-fail-mode br0 standalone
vsctl get-fail-mode br0
vsctl del-fail-mode br0
vsctl set-fail-mode br0 secure
vsctl set-controller br0 unix:$DIR/nobody.sock
vsctl get-controller br0
~ vsctl --columns=target,is_connected,role list controller
vsctl del-controller br0
vsctl get-controller br0
vsctl -- --id=@q create qos type=linux-noop -- set port p4 qos=@q
vsctl --columns=type,queues list qos
vsctl clear port p4 qos -- --all destroy qos
vsctl list qos
vsctl create nosuchtable a=b
vsctl destroy bridge nope
vsctl --if-exists destroy qos nope
vsctl create port name=orphan
vsctl nosuchcommand
vsctl add-br
"""

MORE_BRIDGES = r"""
vsctl add-br br1 -- set bridge br1 datapath_type=dummy fail_mode=secure other-config:hwaddr=aa:66:aa:66:00:01 -- add-port br1 q1 -- set interface q1 type=dummy ofport_request=1
vsctl add-port br0 pa -- set interface pa type=patch options:peer=pb ofport_request=10 -- add-port br1 pb -- set interface pb type=patch options:peer=pa ofport_request=10
vsctl get interface pa ofport type options error
vsctl add-br brf br0 99
vsctl list-br
vsctl --fake list-br
vsctl br-to-vlan brf
vsctl br-to-parent brf
vsctl del-br brf
vsctl list-br
sorted appctl ofproto/list
appctl dpif/show
~ appctl dpctl/show
appctl dpctl/dump-dps
vsctl add-bond br1 bond0 p8 p9 -- set interface p8 type=dummy -- set interface p9 type=dummy
vsctl list-ifaces br1
vsctl del-port br1 bond0
vsctl list-ports br1
"""

OPENFLOW = r"""
ofctl show br0
ofctl -O OpenFlow13 show br0
ofctl show nobr
ofctl -O OpenFlow12 show br0
? ofctl probe br0
/bytes\sfrom ofctl ping br0 64
ofctl get-frags br0
ofctl set-frags br0 drop
ofctl get-frags br0
ofctl set-frags br0 normal
ofctl dump-flows br0
sorted ofctl dump-flows br1
ofctl add-flow br0 table=0,priority=100,in_port=1,ip,nw_dst=10.0.0.2,actions=output:2
ofctl add-flow br0 priority=90,in_port=1,tcp,tp_dst=80,actions=mod_nw_dst:10.9.9.9,mod_dl_dst:02:00:00:00:00:09,output:3
ofctl add-flow br0 priority=80,in_port=1,udp,nw_src=10.0.0.0/8,actions=resubmit(,5)
ofctl add-flow br0 cookie=0x77,table=5,priority=10,ip,nw_dst=10.1.0.0/16,actions=load:0x5->NXM_NX_REG0[],move:NXM_NX_REG0[0..15]->NXM_NX_REG1[16..31],output:3
ofctl add-flow br0 priority=70,in_port=2,dl_vlan=10,actions=strip_vlan,output:1
ofctl add-flow br0 priority=70,in_port=1,arp,actions=mod_vlan_vid:30,mod_vlan_pcp:3,output:3
ofctl add-flow br0 priority=60,ipv6,ipv6_dst=2001:db8::/32,actions=dec_ttl,output:40
ofctl add-flow br0 priority=50,icmp6,icmp_type=135,nd_target=fe80::1,actions=drop
ofctl add-flow br0 priority=40,in_port=3,actions=NORMAL
ofctl add-flow br0 priority=40,in_port=40,actions=FLOOD
ofctl add-flow br0 priority=30,in_port=LOCAL,actions=ALL
ofctl add-flow br0 priority=20,in_port=10,actions=IN_PORT,CONTROLLER:128
ofctl add-flow br0 priority=0,actions=drop
sorted ofctl dump-flows br0
sorted ofctl --no-stats dump-flows br0
sorted ofctl -O OpenFlow13 dump-flows br0
sorted ofctl dump-flows br0 table=5
sorted ofctl dump-flows br0 in_port=1
sorted ofctl dump-flows br0 out_port=3
sorted ofctl dump-flows br0 cookie=0x77/-1
ofctl --sort=priority --no-stats dump-flows br0 ip
ofctl --names --no-stats --sort dump-flows br0 ip
ofctl dump-aggregate br0
ofctl dump-aggregate br0 table=5
ofctl -O OpenFlow13 dump-aggregate br0 in_port=1
ofctl dump-tables br0
ofctl -O OpenFlow13 dump-tables br0
~ blocks ofctl dump-ports br0
~ blocks ofctl dump-ports br0 2
ofctl -O OpenFlow13 dump-ports br0 p1
ofctl dump-ports-desc br0
ofctl -O OpenFlow13 dump-ports-desc br0
ofctl -O OpenFlow13 dump-desc br0
ofctl dump-desc br0
sorted ofctl queue-stats br0
ofctl queue-stats br0 1 7
sorted ofctl -O OpenFlow13 queue-stats br0 ALL ALL
ofctl queue-get-config br0 1
ofctl -O OpenFlow13 add-flow br0 table=2,priority=5,ip,actions=write_actions(output:2),write_metadata:0x12/0xff,goto_table:3
ofctl -O OpenFlow13 add-flow br0 table=3,priority=5,ip,metadata=0x12/0xff,actions=set_field:10.7.7.7->ip_dst,clear_actions,goto_table:4
ofctl -O OpenFlow13 add-flow br0 table=4,priority=5,actions=push_vlan:0x8100,set_field:4126->vlan_vid,output:3
ofctl -O OpenFlow13 add-flow br0 priority=95,in_port=1,sctp,actions=goto_table:2
sorted ofctl -O OpenFlow13 dump-flows br0
ofctl -O OpenFlow13 --no-stats --sort dump-flows br0 table=3
ofctl mod-flows br0 in_port=1,ip,nw_dst=10.0.0.2,actions=output:3
ofctl --strict mod-flows br0 priority=70,in_port=2,dl_vlan=10,actions=strip_vlan,output:40
ofctl --strict mod-flows br0 priority=71,in_port=2,dl_vlan=10,actions=output:40
ofctl mod-flows br0 cookie=0x77/-1,actions=output:1
sorted ofctl -O OpenFlow13 --no-stats dump-flows br0
ofctl --strict del-flows br0 priority=71,in_port=2,dl_vlan=10
ofctl --strict del-flows br0 priority=72,in_port=2,dl_vlan=10
ofctl del-flows br0 table=5,cookie=0x77/0xff
ofctl del-flows br0 out_port=40
sorted ofctl -O OpenFlow13 --no-stats dump-flows br0
ofctl mod-port br0 2 down
~ ofctl show br0
ofctl mod-port br0 p2 up
ofctl mod-port br0 p3 no-flood
ofctl mod-port br0 p3 no-forward
~ ofctl -O OpenFlow13 dump-ports-desc br0
ofctl mod-port br0 p3 flood
ofctl mod-port br0 p3 forward
ofctl mod-port br0 99 down
ofctl add-flow br0 in_port=1,actions=nonsense
ofctl add-flow br0 nonsense=1,actions=drop
ofctl add-flow br0 check_overlap,priority=100,ip,in_port=1,actions=drop
ofctl add-flow br0 table=7,actions=output:70000
ofctl -O OpenFlow13 add-flow br0 table=7,actions=goto_table:7
ofctl -O OpenFlow13 add-flow br0 table=254,actions=goto_table:255
ofctl -O OpenFlow13 add-flow br0 table=7,actions=group:1
ofctl add-flow br0 table=7,tp_dst=80,actions=drop
"""

FLOW_FILES = [
    ("ofctl add-flows br1 -", "priority=9,in_port=1,actions=2\npriority=8,ip,actions=NORMAL\npriority=1,actions=drop\n"),
    ("sorted ofctl --no-stats dump-flows br1", None),
    ("sorted ofctl diff-flows br1 $FILE", "priority=9,in_port=1,actions=2\npriority=7,arp,actions=NORMAL\npriority=1,actions=3\n"),
    ("ofctl replace-flows br1 -", "priority=9,in_port=1,actions=2\npriority=7,arp,actions=NORMAL\npriority=1,actions=3\n"),
    ("sorted ofctl --no-stats dump-flows br1", None),
    ("ofctl add-flows br1 -", "add priority=3,in_port=3,actions=1\ndelete arp\nmodify_strict priority=1,actions=drop\n"),
    ("sorted ofctl --no-stats dump-flows br1", None),
    ("ofctl add-flows br1 -", "priority=4,actions=drop\nthis is no flow\n"),
    ("ofctl --bundle -O OpenFlow14 add-flows br1 -", "priority=5,actions=drop\n"),
    ("ofctl del-flows br1", None),
    ("ofctl dump-flows br1", None),
    ("ofctl add-flow br1 priority=1,actions=NORMAL", None),
]

TRACES = r"""
appctl ofproto/trace br0 in_port=1,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_dst=80
appctl ofproto/trace br0 in_port=1,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.3,tp_dst=80
appctl ofproto/trace br0 in_port=1,udp,nw_src=10.0.0.1,nw_dst=10.1.0.3,nw_ttl=9
appctl ofproto/trace br0 in_port=1,sctp,nw_src=10.0.0.1,nw_dst=10.1.0.3
appctl ofproto/trace br0 in_port=2,dl_vlan=10,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02
appctl ofproto/trace br0 in_port=1,arp,arp_op=1,arp_spa=10.0.0.1,arp_tpa=10.0.0.2
appctl ofproto/trace br0 in_port=2,dl_src=02:00:00:00:00:01
flood appctl ofproto/trace br0 in_port=3,dl_vlan=20,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02
flood appctl ofproto/trace br0 in_port=3,dl_vlan=10,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02
flood appctl ofproto/trace br0 in_port=3,dl_vlan=30,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02
flood appctl ofproto/trace br0 in_port=3,dl_src=01:00:00:00:00:01,dl_dst=02:00:00:00:00:02
flood appctl ofproto/trace br0 in_port=40,ip
flood appctl ofproto/trace br0 in_port=LOCAL,ip
flood appctl ofproto/trace br0 in_port=10,ip
appctl ofproto/trace br0 in_port=2,ipv6,ipv6_dst=2001:db8::5,nw_ttl=1
appctl ofproto/trace br0 in_port=2,ipv6,ipv6_dst=2001:db8::5,nw_ttl=64
appctl ofproto/trace br0 icmp6,in_port=2,icmpv6_type=135,nd_target=fe80::1
appctl ofproto/trace br0 in_port=2,dl_type=0x86dd,nw_proto=58,icmpv6_type=135,icmpv6_code=0,nd_target=fe80::1
flood appctl ofproto/trace br1 in_port=1,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02
appctl ofproto/trace ovs-dummy in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=6,tos=0,ttl=64,frag=no),tcp(src=1,dst=80)
appctl ofproto/trace br0 in_port=99,ip
appctl ofproto/trace nobr in_port=1
"""

TRAFFIC = r"""
appctl time/stop
ofctl packet-out br0 "in_port=controller packet=0200000000020200000000010800 actions=output:2"
~ blocks ofctl dump-ports br0 2
ofctl -O OpenFlow13 packet-out br0 "in_port=1 packet=0200000000020200000000010800450000140000000040000000 0a0000010a000002 actions=table"
ofctl -O OpenFlow13 packet-out br0 "in_port=1 packet=020000000002020000000001080045000014000000004006000a0000010a000002 actions=TABLE"
appctl netdev-dummy/receive p1 in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17,tos=0,ttl=64,frag=no),udp(src=1,dst=2)
appctl revalidator/wait
~ sorted ofctl dump-flows br0 in_port=1
~ sorted flood appctl dpctl/dump-flows
~ sorted flood appctl dpif/dump-flows br0
appctl netdev-dummy/receive p1 in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17,tos=0,ttl=64,frag=no),udp(src=1,dst=2)
appctl time/warp 100
appctl revalidator/wait
~ sorted ofctl dump-flows br0 in_port=1
~ sorted flood appctl dpctl/dump-flows
~ blocks ofctl dump-ports br0 1
~ ofctl -O OpenFlow13 dump-ports br0 3
appctl netdev-dummy/receive p1 0200000000020200000000010806000108000604000102000000000a0a000001000000000000 0a000002
appctl netdev-dummy/receive p1 020000000002020000000001080600010800060400010200000000010a0000010000000000000a000002
appctl netdev-dummy/receive p1 in_port(1),eth(src=02:00:00:00:00:01,dst=ff:ff:ff:ff:ff:ff),eth_type(0x0806),arp(sip=10.0.0.1,tip=10.0.0.2,op=1,sha=02:00:00:00:00:01,tha=00:00:00:00:00:00)
appctl revalidator/wait
~ sorted flood appctl dpctl/dump-flows
appctl netdev-dummy/receive p2 in_port(2),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x8100),vlan(vid=10,pcp=0),encap(eth_type(0x1234))
appctl netdev-dummy/receive q1 in_port(1),eth(src=02:00:00:00:00:11,dst=02:00:00:00:00:12),eth_type(0x1234)
appctl revalidator/wait
~ sorted flood appctl dpctl/dump-flows
~ sorted appctl fdb/show br1
~ appctl fdb/stats-show br1
vsctl set port q1 protected=true
~ sorted appctl fdb/show br1
vsctl set port q1 protected=false
appctl fdb/add br1 q1 0 02:00:00:00:00:77
~ sorted appctl fdb/show br1
appctl netdev-dummy/receive q1 in_port(1),eth(src=02:00:00:00:00:12,dst=02:00:00:00:00:77),eth_type(0x1234)
appctl fdb/del br1 0 02:00:00:00:00:77
appctl fdb/flush br1
~ appctl fdb/show br1
appctl fdb/flush
~ appctl fdb/stats-show br1
~ appctl dpctl/show
appctl revalidator/purge
~ appctl dpctl/dump-flows
appctl dpctl/del-flows
sorted appctl bridge/dump-flows br1
sorted appctl bridge/dump-flows br0
appctl netdev-dummy/set-admin-state p2 down
~ vsctl get interface p2 admin_state link_state
~ ofctl show br0
appctl netdev-dummy/set-admin-state p2 up
~ vsctl get interface p2 admin_state link_state
~ blocks ofctl dump-ports br0
ofctl add-flow br0 table=9,idle_timeout=10,priority=5,actions=drop
ofctl add-flow br0 table=9,hard_timeout=30,priority=6,actions=drop
ofctl add-flow br0 table=9,hard_timeout=300,idle_timeout=200,priority=7,send_flow_rem,actions=drop
~ sorted ofctl dump-flows br0 table=9
appctl time/warp 5000 1000
~ sorted ofctl --no-stats dump-flows br0 table=9
appctl time/warp 8000 1000
~ sorted ofctl --no-stats dump-flows br0 table=9
appctl time/warp 30000 1000
~ sorted ofctl --no-stats dump-flows br0 table=9
~ sorted ofctl -O OpenFlow13 dump-flows br0 table=9
appctl time/warp
"""

OPERATION = r"""
? appctl coverage/show
? appctl memory/show
? appctl upcall/show
? appctl dpif-netdev/pmd-stats-show
appctl dpif-netdev/pmd-stats-clear
/^\s*(console|-------|bridge|ofproto|dpif|vswitchd)\s appctl vlog/list
appctl vlog/set ofproto:file:dbg
/^(ofproto)\s appctl vlog/list
appctl vlog/set ofproto:file:info
appctl vlog/set ANY:console:off
/^(ofproto|bridge)\s appctl vlog/list
? appctl vlog/list-pattern
appctl vlog/reopen
appctl fdb/show nobr
appctl dpif/dump-flows nobr
appctl bridge/dump-flows nobr
appctl nosuchcommand
appctl fdb/show
appctl ofproto/list extra
db get-schema-version $DB Open_vSwitch extra
sorted db -f csv --no-headings dump $DB Open_vSwitch Interface name ofport type mtu admin_state link_state
sorted db -f csv --no-headings dump $DB Open_vSwitch Bridge name datapath_type datapath_id fail_mode
sorted db -f csv --no-headings dump $DB Open_vSwitch Port name tag trunks
db dump $DB Open_vSwitch Nonsense
sorted db -f csv --no-headings dump $DB Open_vSwitch Interface nocolumn
db transact $DB '["Open_vSwitch",{"op":"select","table":"Interface","where":[["name","==","p4"]],"columns":["name","ofport","external_ids"]}]'
db transact $DB '["Open_vSwitch",{"op":"mutate","table":"Bridge","where":[["name","==","br1"]],"mutations":[["external_ids","insert",["map",[["k","v"]]]]]}]'
db transact $DB '["Open_vSwitch",{"op":"wait","table":"Bridge","timeout":0,"where":[["name","==","br1"]],"columns":["name"],"until":"!=","rows":[{"name":"br1"}]}]'
db transact $DB '["Open_vSwitch",{"op":"insert","table":"Queue","row":{"dscp":9}},{"op":"abort"}]'
db transact $DB '["Open_vSwitch",{"op":"comment","comment":"hello"},{"op":"nonsense"}]'
db query $DB '["Open_vSwitch",{"op":"select","table":"Bridge","where":[["name","includes","br0"]],"columns":["name","external_ids"]}]'
db wait $DB nonsense
sorted db list-tables $DB Nonsense
"""

CLOSING = r"""
vsctl del-port br0 p4
~ ofctl show br0
vsctl del-port br0 p3 -- add-port br0 p5 -- set interface p5 type=dummy
vsctl get interface p5 ofport
vsctl add-port br0 p6 -- set interface p6 type=dummy ofport_request=1
vsctl get interface p6 ofport error
vsctl add-port br0 int1 -- set interface int1 type=internal
vsctl get interface int1 ofport type error
vsctl set interface p1 ofport_request=21
~ vsctl get interface p1 ofport
~ ofctl show br0
vsctl del-br br1
~ vsctl get interface pa error
vsctl list-br
appctl dpif/show
sorted appctl ofproto/list
vsctl --oneline list-br -- list-ports br0
vsctl --no-wait --dry-run del-br br0
vsctl del-br br0
vsctl list-br
~ appctl dpif/show
ofctl dump-flows br0
vsctl emer-reset
"""


def lines(text):
    return [Call(line) for line in text.strip().splitlines()]


def calls():
    """All calls, in order."""
    return (lines(EMPTY) + lines(BRIDGES) + lines(COLUMNS) + lines(MORE_BRIDGES) + lines(OPENFLOW)
            + [Call(text, stdin) for text, stdin in FLOW_FILES]
            + lines(TRACES) + lines(TRAFFIC) + lines(OPERATION) + lines(CLOSING))
