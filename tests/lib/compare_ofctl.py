"""Calls of the stock ovs-ofctl for compare_commands: every command with every OpenFlow version, and every option."""

# $V: replaced by each version.
FLOWS = r"""
sorted ofctl $V add-flow br0 cookie=0x12,priority=100,in_port=1,tcp,nw_src=10.0.0.0/8,tp_dst=80,actions=mod_dl_dst:02:00:00:00:00:09,output:2
ofctl $V add-flow br0 priority=90,ipv6,ipv6_src=2001:db8::/32,actions=output:"p-3"
ofctl $V add-flow br0 priority=80,arp,arp_spa=10.0.0.1,actions=NORMAL
ofctl $V add-flow br0 priority=70,dl_vlan=10,actions=strip_vlan,LOCAL
ofctl $V add-flow br0 priority=60,in_port=p2,actions=move:NXM_NX_REG0[]->NXM_NX_REG1[],resubmit(,5),controller:99
ofctl $V add-flow br0 table=5,priority=1,idle_timeout=60,hard_timeout=90,send_flow_rem,actions=drop
ofctl $V add-flow br0 priority=50,tcp,nw_tos=32,actions=set_tunnel:5,set_tunnel64:6,output:2
ofctl $V add-flow br0 priority=49,icmp6,icmp_type=136,nw_tos=64,actions=drop
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
ofctl $V mod-table br0 3 vacancy:80,20
ofctl $V mod-table br0 3 vacancy:20
ofctl $V mod-table br0 3 vacancy:x,20
ofctl $V mod-table br0 3 vacancy:20,101
ofctl $V mod-table br0 3 name:third
ofctl $V mod-table br0 254 name:hidden
ofctl $V mod-table br0 all name:none
ofctl $V dump-table-features br0
ofctl $V mod-table br0 3 name:
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

OTHERS = r"""
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
/FLOW_MONITOR|event=|stderr:\sovs-ofctl/ ofctl -t 1 monitor br0 watch:
/FLOW_MONITOR|event=|stderr:\sovs-ofctl/ ofctl -t 1 monitor br0 watch:!initial watch:table=0,ip
/FLOW_MONITOR|event=|stderr:\sovs-ofctl/ ofctl -t 1 -m monitor br0 watch:!own,!add,out_port=1
/FLOW_MONITOR|event=|stderr:\sovs-ofctl/ ofctl -t 1 -O OpenFlow13 monitor br0 watch:
/FLOW_MONITOR|event=|stderr:\sovs-ofctl/ ofctl -t 1 -O OpenFlow14 monitor br0 watch:table=0
ofctl -O OpenFlow13 monitor br0 64 invalid_ttl
ofctl monitor br0 watch:table=x
ofctl monitor br0 nonsense
ofctl monitor br0 watch:nonsense
ofctl snoop nobr
ofctl ofp-parse $FILE
ofctl ofp-parse /nonexistent/file
ofctl ofp-parse-pcap /nonexistent/file
"""


def of_versions(table, versions):
    return [(line.replace("$V", "-O " + v), given) for v in versions for line, given in table]


def rows(versions):
    """All calls as (line, input)."""
    plain = [[(line, None) for line in table.strip().splitlines()] for table in (FLOWS, READS, CHANGES, GROUPS, METERS)]
    out = [row for table in plain + [FILES] for row in of_versions(table, versions)]
    return out + [(line, "00\n" if "$FILE" in line else None) for line in OTHERS.strip().splitlines()]
