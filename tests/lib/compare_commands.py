"""Every command of the stock ovs-vsctl, ovs-ofctl and ovs-appctl in its forms: with each version of OpenFlow, format and option.

One call for each command that compare_calls does not have is in every run, all of them in a long one (see `calls`). The
notation is that of compare_run. The network is small, its traffic none, and time stands still, so that no answer depends on
when it is asked.
"""
import re

from lib import compare_calls, lab
from lib.compare_run import PROGRAMS, Call

VERSIONS = ["OpenFlow1%d" % n for n in range(6)]

SETUP = r"""
vsctl add-br br0 -- set bridge br0 datapath_type=dummy fail_mode=secure other-config:hwaddr=aa:66:aa:66:00:00 protocols=[OpenFlow10,OpenFlow11,OpenFlow12,OpenFlow13,OpenFlow14,OpenFlow15]
vsctl add-port br0 p1 -- set interface p1 type=dummy ofport_request=1
vsctl add-port br0 p2 -- set interface p2 type=dummy ofport_request=2 external-ids:lab=two
vsctl add-port br0 p-3 -- set interface p-3 type=dummy ofport_request=3
~ vsctl get interface p1 ofport link_state
appctl time/stop
"""

# With each version.
FLOWS = r"""
sorted ofctl $V add-flow br0 cookie=0x12,priority=100,in_port=1,tcp,nw_src=10.0.0.0/8,tp_dst=80,actions=mod_dl_dst:02:00:00:00:00:09,output:2
ofctl $V add-flow br0 priority=90,ipv6,ipv6_src=2001:db8::/32,actions=output:"p-3"
ofctl $V add-flow br0 priority=80,arp,arp_spa=10.0.0.1,actions=NORMAL
ofctl $V add-flow br0 priority=70,dl_vlan=10,actions=strip_vlan,LOCAL
ofctl $V add-flow br0 priority=60,in_port=p2,actions=move:NXM_NX_REG0[]->NXM_NX_REG1[],resubmit(,5),controller:99
ofctl $V add-flow br0 table=5,priority=1,idle_timeout=60,hard_timeout=90,send_flow_rem,actions=drop
ofctl $V add-flow br0 check_overlap,priority=100,tcp,actions=drop
sorted ofctl $V dump-flows br0
sorted ofctl $V --no-stats dump-flows br0
sorted ofctl $V --names dump-flows br0
sorted ofctl $V --no-names --no-stats dump-flows br0
ofctl $V --sort --no-stats dump-flows br0
ofctl $V --rsort=priority --no-stats dump-flows br0
ofctl $V --sort=tcp_dst dump-flows br0
ofctl $V --sort=nothing dump-flows br0
sorted ofctl $V dump-flows br0 in_port=1
sorted ofctl $V dump-flows br0 table=5
sorted ofctl $V dump-flows br0 out_port=2
sorted ofctl $V dump-flows br0 cookie=0x12/-1
ofctl $V dump-flows br0 priority=3
ofctl $V dump-aggregate br0
ofctl $V dump-aggregate br0 in_port=1,tcp
ofctl $V mod-flows br0 tcp,in_port=1,actions=output:1
ofctl $V --strict mod-flows br0 priority=80,arp,arp_spa=10.0.0.1,actions=drop
ofctl $V mod-flows br0 cookie=0x12/-1,actions=output:3
sorted ofctl $V --no-stats dump-flows br0
ofctl $V --strict del-flows br0 priority=90,ipv6,ipv6_src=2001:db8::/32
ofctl $V del-flows br0 out_port=LOCAL
ofctl $V --read-only del-flows br0
sorted ofctl $V --no-stats dump-flows br0
ofctl $V del-flows br0
ofctl $V dump-flows br0
"""

READS = r"""
ofctl $V show br0
ofctl $V dump-desc br0
ofctl $V dump-tables br0
ofctl $V dump-table-features br0
ofctl $V dump-table-desc br0
blocks ofctl $V dump-ports br0
ofctl $V dump-ports br0 1
ofctl $V dump-ports br0 p-3
ofctl $V dump-ports br0 nope
ofctl $V dump-ports-desc br0
ofctl $V dump-ports-desc br0 2
sorted ofctl $V queue-stats br0
ofctl $V queue-stats br0 1
ofctl $V queue-stats br0 1 2
ofctl $V queue-get-config br0
ofctl $V queue-get-config br0 1
ofctl $V get-frags br0
? ofctl $V probe br0
ofctl $V dump-ipfix-bridge br0
ofctl $V dump-ipfix-flow br0
ofctl $V dump-tlv-map br0
"""

CHANGES = r"""
ofctl $V set-frags br0 drop
ofctl $V get-frags br0
ofctl $V set-frags br0 nx-match
ofctl $V get-frags br0
ofctl $V set-frags br0 nonsense
ofctl $V set-frags br0 normal
ofctl $V mod-port br0 1 down
ofctl $V mod-port br0 p1 up
ofctl $V mod-port br0 p1 no-stp
ofctl $V mod-port br0 p1 no-receive
ofctl $V mod-port br0 p1 no-flood
ofctl $V mod-port br0 p1 no-packet-in
~ ofctl $V dump-ports-desc br0 1
ofctl $V mod-port br0 p1 receive
ofctl $V mod-port br0 p1 flood
ofctl $V mod-port br0 p1 packet-in
ofctl $V mod-port br0 p1 stp
ofctl $V mod-port br0 p1 nonsense
ofctl $V mod-port br0 nope up
ofctl $V mod-table br0 3 controller
ofctl $V mod-table br0 3 drop
ofctl $V mod-table br0 3 evict
ofctl $V mod-table br0 3 vacancy:20,80
ofctl $V dump-table-desc br0
ofctl $V mod-table br0 3 noevict
ofctl $V mod-table br0 3 novacancy
ofctl $V mod-table br0 3 nonsense
ofctl $V mod-table br0 all continue
ofctl $V packet-out br0 in_port=controller,packet=0200000000020200000000010800,actions=output:2
ofctl $V packet-out br0 none output:1 0200000000020200000000010800
ofctl $V packet-out br0 in_port=1,packet=02,actions=nonsense
ofctl $V add-tlv-map br0 {class=0xffff,type=0,len=4}->tun_metadata0
ofctl $V add-tlv-map br0 {class=0xffff,type=0,len=4}->tun_metadata1
ofctl $V dump-tlv-map br0
ofctl $V del-tlv-map br0 {class=0xffff,type=0,len=4}->tun_metadata0
ofctl $V del-tlv-map br0
ofctl $V ct-flush-zone br0 5
ofctl $V ct-flush br0
ofctl $V ct-flush br0 zone=5
ofctl $V ct-flush br0 zone=5 ct_nw_src=10.0.0.1,ct_nw_proto=6
ofctl $V ct-flush br0 nonsense
/bytes\sfrom ofctl $V ping br0 100
? ofctl $V benchmark br0 10 3
"""

GROUPS = r"""
ofctl $V add-group br0 group_id=1,type=all,bucket=output:1,bucket=output:2
ofctl $V add-group br0 group_id=2,type=select,bucket=weight:5,output:1,bucket=weight:7,mod_dl_dst:02:00:00:00:00:09,output:2
ofctl $V add-group br0 group_id=3,type=ff,bucket=watch_port:1,output:1,bucket=watch_port:2,output:2
ofctl $V add-group br0 group_id=4,type=indirect,bucket=output:3
ofctl $V add-group br0 group_id=5,type=select,selection_method=hash,fields(ip_src,tcp_dst),bucket=bucket_id:7,weight:1,output:1
ofctl $V add-group br0 group_id=6,type=select,selection_method=dp_hash,bucket=output:1
ofctl $V add-group br0 group_id=1,type=all
ofctl $V add-group br0 group_id=9,type=nonsense
ofctl $V add-group br0 type=all
sorted ofctl $V dump-groups br0
sorted ofctl $V dump-groups br0 2
sorted ofctl $V dump-groups br0 77
sorted ofctl $V dump-group-stats br0
ofctl $V dump-group-stats br0 1
ofctl $V dump-group-features br0
ofctl $V add-flow br0 priority=1,actions=group:1
ofctl $V add-flow br0 priority=2,actions=group:77
ofctl $V mod-group br0 group_id=1,type=indirect,bucket=output:2
ofctl $V --may-create mod-group br0 group_id=10,type=all,bucket=output:1
ofctl $V mod-group br0 group_id=11,type=all
ofctl $V insert-buckets br0 group_id=5,command_bucket_id=last,bucket=bucket_id:9,weight:2,output:3
ofctl $V insert-buckets br0 group_id=5,command_bucket_id=first,bucket=bucket_id:7,output:3
ofctl $V remove-buckets br0 group_id=5,command_bucket_id=7
ofctl $V remove-buckets br0 group_id=5,command_bucket_id=77
sorted ofctl $V dump-groups br0
ofctl $V del-groups br0 group_id=2
ofctl $V del-groups br0 77
ofctl $V del-groups br0
ofctl $V dump-groups br0
ofctl $V dump-flows br0
ofctl $V add-groups br0 -
ofctl $V del-flows br0
"""

METERS = r"""
ofctl $V add-meter br0 meter=1,kbps,burst,stats,bands=type=drop,rate=100,burst_size=50
ofctl $V add-meter br0 meter=2,pktps,bands=type=drop,rate=5
ofctl $V add-meter br0 meter=3,kbps,bands=type=dscp_remark,rate=5,prec_level=1
ofctl $V add-meter br0 meter=1,kbps,bands=type=drop,rate=100
ofctl $V add-meter br0 meter=nonsense
sorted ofctl $V dump-meters br0
ofctl $V dump-meters br0 meter=1
ofctl $V dump-meters br0 meter=77
~ sorted ofctl $V meter-stats br0
~ ofctl $V meter-stats br0 meter=2
ofctl $V meter-features br0
ofctl $V add-flow br0 actions=meter:1,output:1
ofctl $V add-flow br0 actions=meter:77,output:1
ofctl $V mod-meter br0 meter=1,pktps,bands=type=drop,rate=7
ofctl $V mod-meter br0 meter=77,pktps,bands=type=drop,rate=7
ofctl $V dump-meters br0 1
ofctl $V del-meters br0 meter=2
ofctl $V del-meter br0 meter=1
ofctl $V dump-flows br0
ofctl $V del-meters br0
ofctl $V dump-meters br0
"""

FILES = [
    ("ofctl $V add-flows br0 -", "priority=9,in_port=1,actions=2\npriority=8,ip,actions=NORMAL\n# a remark\n\npriority=1,actions=drop\n"),
    ("ofctl $V replace-flows br0 -", "priority=9,in_port=1,actions=2\npriority=7,arp,actions=NORMAL\npriority=1,actions=3\n"),
    ("ofctl $V --readd replace-flows br0 $FILE", "priority=9,in_port=1,actions=2\npriority=1,actions=3\n"),
    ("sorted ofctl $V --no-stats dump-flows br0", None),
    ("sorted ofctl $V diff-flows br0 $FILE", "priority=9,in_port=1,actions=2\npriority=6,arp,actions=NORMAL\npriority=1,actions=4\n"),
    ("ofctl $V diff-flows br0 $FILE", "priority=9,in_port=1,actions=2\npriority=1,actions=3\n"),
    ("ofctl $V --bundle add-flows br0 -", "delete\nadd priority=5,actions=drop\nmodify_strict priority=5,actions=1\n"),
    ("ofctl $V --bundle add-flows br0 -", "add priority=6,actions=drop\nadd priority=7,actions=group:77\n"),
    ("sorted ofctl $V --no-stats dump-flows br0", None),
    ("ofctl $V --bundle replace-flows br0 -", "priority=1,actions=3\n"),
    ("ofctl $V --bundle add-group br0 group_id=3,type=all,bucket=output:1", None),
    ("ofctl $V bundle br0 -", "flow add priority=3,actions=drop\ngroup group_id=4,type=all,bucket=output:2\npacket-out in_port=1,packet=0200000000020200000000010800,actions=output:2\n"),
    ("ofctl $V bundle br0 -", "nonsense\n"),
    ("ofctl $V add-groups br0 -", "group_id=7,type=all\nadd group_id=8,type=indirect,bucket=output:1\n"),
    ("sorted ofctl $V dump-groups br0", None),
    ("ofctl $V add-flows br0 -", "priority=4,actions=drop\nthis is no flow\n"),
    ("ofctl $V add-flows br0 /nonexistent/file", None),
    ("ofctl $V del-groups br0", None),
    ("ofctl $V del-flows br0", None),
]

OFCTL = r"""
ofctl -F NXM add-flow br0 reg0=5,actions=drop
ofctl -F OpenFlow10 add-flow br0 reg0=5,actions=drop
ofctl -F OpenFlow10-table_id add-flow br0 table=3,actions=drop
ofctl -F NXM+table_id --no-stats --sort dump-flows br0
ofctl -F OXM-OpenFlow12 --no-stats --sort dump-flows br0
ofctl -F nonsense dump-flows br0
ofctl -O OpenFlow99 dump-flows br0
ofctl -O OpenFlow13,OpenFlow14 --no-stats --sort dump-flows br0
ofctl --color=always --no-stats --sort dump-flows br0
ofctl --color=never --no-stats --sort dump-flows br0
ofctl --color=nonsense dump-flows br0
ofctl -vconsole:off dump-flows nobr
ofctl -v nonsense
ofctl -m --sort --no-stats dump-flows br0
ofctl del-flows br0
ofctl dump-flows unix:$DIR/nobody.sock
ofctl dump-flows unix:$DIR/br0.mgmt
ofctl dump-flows tcp:127.0.0.1:1
ofctl dump-flows br0 extra extra
ofctl dump-flows
ofctl show nobr
ofctl nonsense br0
ofctl --nonsense show br0
? ofctl -t 1 monitor br0
? ofctl -t 1 monitor br0 65534 invalid_ttl
? ofctl -t 1 -P nxt_packet_in monitor br0 64
ofctl -P nonsense monitor br0 64
? ofctl -t 1 monitor br0 watch:
ofctl monitor br0 nonsense
ofctl monitor br0 watch:nonsense
ofctl snoop nobr
ofctl ofp-parse $FILE
ofctl ofp-parse /nonexistent/file
ofctl ofp-parse-pcap /nonexistent/file
"""

VSCTL = r"""
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

VSCTL_END = r"""
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

APPCTL = r"""
appctl version
appctl -T 5 ofproto/list
appctl -t $DIR/nobody.ctl version
appctl nonsense
appctl --nonsense version
appctl
appctl ofproto/list
appctl ofproto/list-tunnels
appctl ofproto/tnl-push-pop
appctl dpif/dump-dps
sorted appctl dpif/show
appctl dpif/show-dp-features br0
appctl dpif/show-dp-features nobr
appctl dpif/dump-flows br0
appctl dpif/dump-flows -m --names br0
appctl dpif/dump-flows nobr
appctl dpctl/dump-dps
~ appctl dpctl/show
~ appctl dpctl/show -s
appctl dpctl/show nope
appctl dpctl/add-flow in_port(1),eth(),eth_type(0x800),ipv4(frag=no) 2
appctl dpctl/add-flow in_port(1),eth(),eth_type(0x800),ipv4(frag=no) 2
sorted appctl dpctl/dump-flows
sorted appctl dpctl/dump-flows --names
appctl dpctl/dump-flows filter=tcp
appctl dpctl/dump-flows type=nonsense
appctl dpctl/mod-flow in_port(1),eth(),eth_type(0x800),ipv4(frag=no) 3
appctl dpctl/mod-flow in_port(2),eth(),eth_type(0x800),ipv4(frag=no) 3
appctl dpctl/get-flow ufid:00000000-0000-0000-0000-000000000000
appctl dpctl/get-flow nonsense
appctl dpctl/del-flow in_port(1),eth(),eth_type(0x800),ipv4(frag=no)
appctl dpctl/del-flow nonsense
appctl dpctl/del-flows
appctl dpctl/add-flow nonsense 1
appctl dpctl/parse-actions 1,2
appctl dpctl/dump-conntrack
appctl dpctl/flush-conntrack
appctl dpctl/flush-conntrack zone=5
appctl dpctl/ct-stats-show
appctl dpctl/ct-bkts
appctl dpctl/ct-get-maxconns
appctl dpctl/ct-set-maxconns 5000
appctl dpctl/ct-get-maxconns
appctl dpctl/ct-get-nconns
appctl dpctl/ct-enable-tcp-seq-chk
appctl dpctl/ct-get-tcp-seq-chk
appctl dpctl/ct-set-limits default=5
appctl dpctl/ct-get-limits
appctl dpctl/ct-del-limits zone=5
appctl dpctl/ct-set-sweep-interval 1000
appctl dpctl/ct-get-sweep-interval
appctl dpctl/ipf-get-status
appctl dpctl/ipf-set-min-frag v4 1000
appctl dpctl/cache-get-size
appctl fdb/show br0
appctl fdb/stats-show br0
appctl fdb/add br0 p1 0 02:00:00:00:00:01
appctl fdb/add br0 nope 0 02:00:00:00:00:01
appctl fdb/add br0 p1 5000 02:00:00:00:00:01
sorted appctl fdb/show br0
appctl fdb/del br0 0 02:00:00:00:00:01
appctl fdb/del br0 0 02:00:00:00:00:01
appctl fdb/stats-clear br0
appctl fdb/flush br0
appctl mdb/show br0
appctl mdb/flush br0
sorted appctl bridge/dump-flows br0
sorted appctl bridge/dump-flows --offload-stats br0
? appctl bridge/reconnect br0
appctl bridge/reconnect nobr
appctl ofproto/trace br0 in_port=1
appctl ofproto/trace br0 in_port=1 -generate
appctl ofproto/trace br0 in_port=1 0200000000020200000000010800
appctl ofproto/trace in_port=1
appctl ofproto/trace-packet-out br0 in_port=1 2
appctl ofproto/detrace br0 0
appctl tnl/ports/show
appctl tnl/arp/show
appctl ovs/route/show nonsense
appctl bond/list
appctl bond/show
appctl bond/show nope
appctl lacp/show
appctl lacp/show nope
appctl lacp/show-stats
appctl stp/show
appctl stp/show br0
appctl rstp/show
appctl bfd/show
appctl bfd/show nope
appctl cfm/show
appctl cfm/show nope
appctl qos/show p1
appctl qos/show nope
appctl qos/show-types p1
appctl autoattach/status
appctl upcall/set-flow-limit 1000
appctl upcall/set-flow-limit 0
appctl upcall/enable-ufid
appctl upcall/disable-megaflows
appctl upcall/enable-megaflows
appctl revalidator/wait
appctl revalidator/purge
appctl memory/show nonsense
appctl coverage/read-counter nonsense
appctl vlog/list-pattern
appctl vlog/set nonsense
appctl vlog/set bridge:nonsense
appctl vlog/set pattern:console:%m
appctl vlog/disable-rate-limit bridge
appctl vlog/enable-rate-limit bridge
appctl vlog/disable-rate-limit nonsense
appctl vlog/close
appctl vlog/reopen
appctl netdev-dummy/conn-state p1
appctl netdev-dummy/set-admin-state nope up
appctl netdev-dummy/set-admin-state p1 nonsense
appctl netdev-dummy/receive nope 00
appctl netdev-dummy/receive p1 zz
appctl dpif-netdev/subtable-lookup-info-get
? appctl dpif-netdev/pmd-rxq-show
? appctl dpif-netdev/pmd-perf-show
? appctl dpif-netdev/pmd-rxq-rebalance
appctl time/warp nonsense
"""

# What ends or blocks the daemon, or has side effects on the whole machine, is not called with wrong arguments.
NOT_CALLED = re.compile(r"^(exit|list-commands|help)$|^dpctl/|^(dpif-netdev|odp-execute)/.*-(set|impl)|time/")


def wrong_counts(switch):
    """Each command of the control socket that both switches have, with more arguments than any takes."""
    listed = [lab.sh("ovs-appctl", "-t", "%s/%s.ctl" % (s.dir, s.name), "list-commands") for s in switch]
    names = [set(re.findall(r"^ {2}(\S+)", text, re.M)) for text in listed]
    both = sorted(n for n in set.intersection(*names) if not NOT_CALLED.search(n))
    return ["appctl %s %s" % (name, "x " * 9) for name in both]


def of_versions(table, versions):
    return [line.replace("$V", "-O " + v) for v in versions for line in table.strip().splitlines()]


def formats():
    out = ["vsctl -f %s -d %s %s" % (f, d, t) for f in FORMATS for d in DATA for t in TABLES]
    out += ["vsctl %s %s" % (option, t) for option in ("--bare", "--no-headings", "--pretty -f json") for t in TABLES]
    return out


def texts(versions):
    """Every call as (line, input)."""
    plain = lambda lines: [(line, None) for line in lines]
    rows = plain(SETUP.strip().splitlines())
    for table in (FLOWS, READS, CHANGES, GROUPS, METERS):
        rows += plain(of_versions(table, versions))
    rows += [(text.replace("$V", "-O " + v), given) for v in versions for text, given in FILES]
    rows += [(line, "00\n" if "$FILE" in line else None) for line in OFCTL.strip().splitlines()]
    rows += plain(formats()) + plain(APPCTL.strip().splitlines()) + plain(VSCTL.strip().splitlines())
    return rows


def calls(switches, long):
    """The calls for these switches: all of them, or the first of each command that no other test compares."""
    rows = texts(VERSIONS if long else ["OpenFlow13"])
    ends = [(line, None) for line in VSCTL_END.strip().splitlines()]
    if not long:
        rows = rows[:len(SETUP.strip().splitlines())] + first_of_each(rows)
    if long:
        rows += [(text, None) for text in wrong_counts(switches)]
    return [Call(text, given) for text, given in rows + ends]


def first_of_each(rows):
    seen, kept = {command_of(call) for call in compare_calls.calls()}, []
    for text, given in rows:
        command = command_of(Call(text, given or ""))
        if command not in seen and " monitor " not in text and "-t 1 " not in text:
            seen.add(command)
            kept.append((text, given))
    return kept


def command_of(call):
    """The tool and the command of a call: what is neither an option nor its value."""
    takes = {"-O", "-F", "-P", "-t", "-T", "-f", "-d"}
    words = iter(call.args)
    for word in words:
        if word in takes:
            next(words, None)
        elif not word.startswith("-"):
            return call.tool, word
    return call.tool, ""


def commands_of_help(tool):
    """The commands that the stock tool's help lists."""
    text = lab.sh(PROGRAMS[tool], "--help").partition("Options:")[0].partition("Active ")[0]
    return set(re.findall(r"^ {2}(?:\[--[^\]]*\] )?([a-z][a-z-]+)(?= )", text, re.M))
