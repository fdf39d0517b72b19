"""A learning switch, as a controller's tutorial would write it: packet-in, packet-out, flow mod.

    l2_learning.py PORT [VERSION [PRIVATE-KEY CERTIFICATE CA-CERTIFICATE]]

VERSION is that of OpenFlow's header: 4 for 1.3 (the default), 5 for 1.4, 6 for 1.5. With the files it listens for TLS.
"""
import sys

from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib.packet import ethernet, packet

VERSION = int(sys.argv[2]) if len(sys.argv) > 2 else 4


class Learning(app_manager.OSKenApp):
    OFP_VERSIONS = [VERSION]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.port_of = {}

    @staticmethod
    def add_flow(dp, priority, match, actions):
        parser = dp.ofproto_parser
        apply = parser.OFPInstructionActions(dp.ofproto.OFPIT_APPLY_ACTIONS, actions)
        dp.send_msg(parser.OFPFlowMod(datapath=dp, priority=priority, match=match, instructions=[apply]))

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def on_features(self, event):
        dp = event.msg.datapath
        to_us = dp.ofproto_parser.OFPActionOutput(dp.ofproto.OFPP_CONTROLLER, dp.ofproto.OFPCML_NO_BUFFER)
        self.add_flow(dp, 0, dp.ofproto_parser.OFPMatch(), [to_us])

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def on_packet_in(self, event):
        msg = event.msg
        dp, in_port = msg.datapath, msg.match["in_port"]
        parser = dp.ofproto_parser
        eth = packet.Packet(msg.data).get_protocol(ethernet.ethernet)
        self.port_of[dp.id, eth.src] = in_port
        out = self.port_of.get((dp.id, eth.dst), dp.ofproto.OFPP_FLOOD)
        actions = [parser.OFPActionOutput(out)]
        if out != dp.ofproto.OFPP_FLOOD:
            match = parser.OFPMatch(in_port=in_port, eth_dst=eth.dst, eth_src=eth.src)
            self.add_flow(dp, 10, match, actions)
        # In OpenFlow 1.5 a packet-out has a match instead of the ingress port.
        origin = {"match": parser.OFPMatch(in_port=in_port)} if VERSION >= 6 else {"in_port": in_port}
        dp.send_msg(parser.OFPPacketOut(datapath=dp, buffer_id=dp.ofproto.OFP_NO_BUFFER, actions=actions,
                                        data=msg.data, **origin))


if __name__ == "__main__":
    # Recent releases of os-ken have no command that runs applications; this code does what that command did.
    from os_ken import cfg

    port, files = sys.argv[1], sys.argv[3:]
    options = ["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", port]
    if files:
        options = options[:2] + ["--ofp-ssl-listen-port", port, "--ctl-privkey", files[0], "--ctl-cert", files[1],
                                 "--ca-certs", files[2]]
    cfg.CONF(args=options, project="os_ken")
    app_manager.AppManager.run_apps(["os_ken.controller.ofp_handler", "l2_learning"])
