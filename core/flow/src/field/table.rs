//! The table of match fields, with a row for each field.
//!
//! A row is: `Id: "name" "other name", bytes bits maskable form prerequisite access protocols,` then the location of the
//! field in a [`Flow`], and its headers in NXM and OXM (class, number, first OpenFlow version, name). Specifications:
//! OpenFlow 1.5.1 §7.2.3.8, the ONF extensions, and ovs-fields(7) for the Nicira fields.

use super::info::{Form, Header, Maskable, Prereq, Usable};
use super::location::{FieldLocation, TLV, at, bytes, mpls, reg, vlan};
use crate::Flow;
use std::mem::offset_of;

/// A row of the table of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    /// The field.
    pub id: FieldId,
    /// The name of the field in text.
    pub name: &'static str,
    /// A second name in text; empty: none.
    pub extra_name: &'static str,
    /// Size on the wire in bytes; for a field of tunnel options the maximum.
    pub n_bytes: u8,
    /// Number of significant bits.
    pub n_bits: u16,
    /// Whether single bits can be matched.
    pub maskable: Maskable,
    /// Form of the value in text.
    pub form: Form,
    /// The condition under which a packet has the field.
    pub prereq: Prereq,
    /// Actions may write the field.
    pub writable: bool,
    /// The protocols that can express a match on the field: an exact match, with a CIDR mask, with any other mask.
    pub usable: [Usable; 3],
    /// The NXM and OXM headers of the field, ordered by OpenFlow version.
    pub headers: &'static [Header],
}

/// Vendor and class of a header.
type Class = (u32, u16);
pub(super) const NXM0: Class = (0, 0x0000);
pub(super) const NXM1: Class = (0, 0x0001);
/// Ericsson's class of OXM.
const ERIC: Class = (0, 0x1000);
pub(super) const OXM: Class = (0, 0x8000);
const PKT: Class = (0, 0x8001);
const NXOXM_ET: Class = (0x0000_2320, 0xffff);
const NXOXM_NSH: Class = (0x005a_d650, 0xffff);
const ONFOXM_ET: Class = (0x4f4e_4600, 0xffff);

/// The protocols that can express an exact match, a CIDR mask, and any other mask.
type Protocols = [Usable; 3];
const NOT: Protocols = [Usable::None; 3];
const ANY_EXACT: Protocols = [Usable::Any, Usable::None, Usable::None];
const ANY_OXM: Protocols = [Usable::Any, Usable::NxmOxm, Usable::NxmOxm];
const ANY_OF11: Protocols = [Usable::Any, Usable::Of11Up, Usable::Of11Up];
const ANY_CIDR: Protocols = [Usable::Any, Usable::Any, Usable::Of11Up];
const OF11_EXACT: Protocols = [Usable::Of11Up, Usable::None, Usable::None];
const OF11_OXM: Protocols = [Usable::Of11Up, Usable::NxmOxm, Usable::NxmOxm];
const OF11_ANY: Protocols = [Usable::Of11Up; 3];
const OXM_EXACT: Protocols = [Usable::NxmOxm, Usable::None, Usable::None];
const OXM_ANY: Protocols = [Usable::NxmOxm; 3];

/// Access of a row: actions cannot write the field.
#[allow(non_upper_case_globals)]
const Ro: bool = false;
/// Access of a row: actions may write the field.
#[allow(non_upper_case_globals)]
const Rw: bool = true;

const fn header(class: Class, field: u8, n_bytes: u8, of_version: u8, name: &'static str) -> Header {
    let vendor_len = if class.0 != 0 { 4 } else { 0 };
    let low = (class.1 as u64) << 16 | (field as u64) << 9 | (n_bytes + vendor_len) as u64;
    Header { bits: (class.0 as u64) << 32 | low, of_version, name }
}

macro_rules! fields {
    ($($id:ident: $name:literal $extra:literal, $bytes:literal $bits:literal $mask:ident $form:ident $pre:ident
        $access:ident $protocols:ident, $location:expr,
        [$(($class:ident, $number:literal, $version:literal, $nxm:literal)),*];)*) => {
        /// A match field, in the order of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)]
        #[repr(u8)]
        pub enum FieldId { $($id),* }

        pub(super) static FIELDS: [FieldInfo; [$(FieldId::$id),*].len()] = [$(FieldInfo {
            id: FieldId::$id,
            name: $name,
            extra_name: $extra,
            n_bytes: $bytes,
            n_bits: $bits,
            maskable: Maskable::$mask,
            form: Form::$form,
            prereq: Prereq::$pre,
            writable: $access,
            usable: $protocols,
            headers: &[$(header($class, $number, $bytes, $version, $nxm)),*],
        }),*];

        pub(super) static LOCATIONS: [FieldLocation; [$(FieldId::$id),*].len()] = [$($location.of_field($bits, FieldId::$id.is_plain())),*];
    };
}

fields! {
    DpHash: "dp_hash" "", 4 32 Bitwise Hex None Ro OXM_ANY,
        at(offset_of!(Flow, dp_hash), 4, 1, 0xffff_ffff, 0), [(NXOXM_ET, 0, 0, "NXOXM_ET_DP_HASH"), (NXM1, 35, 0, "NXM_NX_DP_HASH")];
    RecircId: "recirc_id" "", 4 32 Whole Decimal None Ro OXM_EXACT,
        at(offset_of!(Flow, recirc_id), 4, 1, 0xffff_ffff, 0), [(NXM1, 36, 0, "NXM_NX_RECIRC_ID")];
    PacketType: "packet_type" "", 4 32 Whole PacketType None Ro OXM_EXACT,
        at(offset_of!(Flow, packet_type), 4, 1, 0xffff_ffff, 0), [(OXM, 44, 6, "OXM_OF_PACKET_TYPE")];
    ConjId: "conj_id" "", 4 32 Whole Decimal None Ro OXM_EXACT,
        at(offset_of!(Flow, conj_id), 4, 1, 0xffff_ffff, 0), [(NXM1, 37, 0, "NXM_NX_CONJ_ID")];
    TunId: "tun_id" "tunnel_id", 8 64 Bitwise Hex None Rw OXM_ANY,
        at(offset_of!(Flow, tunnel.tun_id), 8, 1, u64::MAX as u128, 0), [(NXM1, 16, 0, "NXM_NX_TUN_ID"), (OXM, 38, 4, "OXM_OF_TUNNEL_ID")];
    TunSrc: "tun_src" "", 4 32 Bitwise Ipv4 None Rw OXM_ANY,
        at(offset_of!(Flow, tunnel.ip_src), 4, 1, 0xffff_ffff, 0), [(NXM1, 31, 0, "NXM_NX_TUN_IPV4_SRC")];
    TunDst: "tun_dst" "", 4 32 Bitwise Ipv4 None Rw OXM_ANY,
        at(offset_of!(Flow, tunnel.ip_dst), 4, 1, 0xffff_ffff, 0), [(NXM1, 32, 0, "NXM_NX_TUN_IPV4_DST")];
    TunIpv6Src: "tun_ipv6_src" "", 16 128 Bitwise Ipv6 None Rw OXM_ANY,
        bytes(offset_of!(Flow, tunnel.ipv6_src), 16), [(NXM1, 109, 0, "NXM_NX_TUN_IPV6_SRC")];
    TunIpv6Dst: "tun_ipv6_dst" "", 16 128 Bitwise Ipv6 None Rw OXM_ANY,
        bytes(offset_of!(Flow, tunnel.ipv6_dst), 16), [(NXM1, 110, 0, "NXM_NX_TUN_IPV6_DST")];
    TunFlags: "tun_flags" "", 2 1 Bitwise TunnelFlags None Rw OXM_ANY,
        at(offset_of!(Flow, tunnel.flags), 2, 1, 1, 0), [(NXM1, 104, 0, "NXM_NX_TUN_FLAGS")];
    TunTtl: "tun_ttl" "", 1 8 Whole Decimal None Ro NOT,
        at(offset_of!(Flow, tunnel.ip_ttl), 1, 1, 0xff, 0), [];
    TunTos: "tun_tos" "", 1 8 Whole Decimal None Ro NOT,
        at(offset_of!(Flow, tunnel.ip_tos), 1, 1, 0xff, 0), [];
    TunGbpId: "tun_gbp_id" "", 2 16 Bitwise Decimal None Rw OXM_ANY,
        at(offset_of!(Flow, tunnel.gbp_id), 2, 1, 0xffff, 0), [(NXM1, 38, 0, "NXM_NX_TUN_GBP_ID")];
    TunGbpFlags: "tun_gbp_flags" "", 1 8 Bitwise Hex None Rw OXM_ANY,
        at(offset_of!(Flow, tunnel.gbp_flags), 1, 1, 0xff, 0), [(NXM1, 39, 0, "NXM_NX_TUN_GBP_FLAGS")];
    TunErspanIdx: "tun_erspan_idx" "", 4 20 Bitwise Hex None Rw OXM_ANY,
        at(offset_of!(Flow, tunnel.erspan_idx), 4, 1, 0xffff_ffff, 0), [(NXOXM_ET, 11, 0, "NXOXM_ET_ERSPAN_IDX")];
    TunErspanVer: "tun_erspan_ver" "", 1 4 Bitwise Decimal None Rw OXM_ANY,
        at(offset_of!(Flow, tunnel.erspan_ver), 1, 1, 0xff, 0), [(NXOXM_ET, 12, 0, "NXOXM_ET_ERSPAN_VER")];
    TunErspanDir: "tun_erspan_dir" "", 1 1 Bitwise Decimal None Rw OXM_ANY,
        at(offset_of!(Flow, tunnel.erspan_dir), 1, 1, 0xff, 0), [(NXOXM_ET, 13, 0, "NXOXM_ET_ERSPAN_DIR")];
    TunErspanHwid: "tun_erspan_hwid" "", 1 6 Bitwise Hex None Rw OXM_ANY,
        at(offset_of!(Flow, tunnel.erspan_hwid), 1, 1, 0xff, 0), [(NXOXM_ET, 14, 0, "NXOXM_ET_ERSPAN_HWID")];
    TunGtpuFlags: "tun_gtpu_flags" "gtpu_flags", 1 8 Bitwise Hex None Ro OXM_ANY,
        at(offset_of!(Flow, tunnel.gtpu_flags), 1, 1, 0xff, 0), [(NXOXM_ET, 15, 0, "NXOXM_ET_GTPU_FLAGS")];
    TunGtpuMsgtype: "tun_gtpu_msgtype" "gtpu_msgtype", 1 8 Bitwise Decimal None Ro OXM_ANY,
        at(offset_of!(Flow, tunnel.gtpu_msgtype), 1, 1, 0xff, 0), [(NXOXM_ET, 16, 0, "NXOXM_ET_GTPU_MSGTYPE")];
    TunMetadata0: "tun_metadata0" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 40, 0, "NXM_NX_TUN_METADATA0")];
    TunMetadata1: "tun_metadata1" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 41, 0, "NXM_NX_TUN_METADATA1")];
    TunMetadata2: "tun_metadata2" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 42, 0, "NXM_NX_TUN_METADATA2")];
    TunMetadata3: "tun_metadata3" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 43, 0, "NXM_NX_TUN_METADATA3")];
    TunMetadata4: "tun_metadata4" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 44, 0, "NXM_NX_TUN_METADATA4")];
    TunMetadata5: "tun_metadata5" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 45, 0, "NXM_NX_TUN_METADATA5")];
    TunMetadata6: "tun_metadata6" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 46, 0, "NXM_NX_TUN_METADATA6")];
    TunMetadata7: "tun_metadata7" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 47, 0, "NXM_NX_TUN_METADATA7")];
    TunMetadata8: "tun_metadata8" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 48, 0, "NXM_NX_TUN_METADATA8")];
    TunMetadata9: "tun_metadata9" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 49, 0, "NXM_NX_TUN_METADATA9")];
    TunMetadata10: "tun_metadata10" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 50, 0, "NXM_NX_TUN_METADATA10")];
    TunMetadata11: "tun_metadata11" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 51, 0, "NXM_NX_TUN_METADATA11")];
    TunMetadata12: "tun_metadata12" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 52, 0, "NXM_NX_TUN_METADATA12")];
    TunMetadata13: "tun_metadata13" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 53, 0, "NXM_NX_TUN_METADATA13")];
    TunMetadata14: "tun_metadata14" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 54, 0, "NXM_NX_TUN_METADATA14")];
    TunMetadata15: "tun_metadata15" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 55, 0, "NXM_NX_TUN_METADATA15")];
    TunMetadata16: "tun_metadata16" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 56, 0, "NXM_NX_TUN_METADATA16")];
    TunMetadata17: "tun_metadata17" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 57, 0, "NXM_NX_TUN_METADATA17")];
    TunMetadata18: "tun_metadata18" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 58, 0, "NXM_NX_TUN_METADATA18")];
    TunMetadata19: "tun_metadata19" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 59, 0, "NXM_NX_TUN_METADATA19")];
    TunMetadata20: "tun_metadata20" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 60, 0, "NXM_NX_TUN_METADATA20")];
    TunMetadata21: "tun_metadata21" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 61, 0, "NXM_NX_TUN_METADATA21")];
    TunMetadata22: "tun_metadata22" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 62, 0, "NXM_NX_TUN_METADATA22")];
    TunMetadata23: "tun_metadata23" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 63, 0, "NXM_NX_TUN_METADATA23")];
    TunMetadata24: "tun_metadata24" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 64, 0, "NXM_NX_TUN_METADATA24")];
    TunMetadata25: "tun_metadata25" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 65, 0, "NXM_NX_TUN_METADATA25")];
    TunMetadata26: "tun_metadata26" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 66, 0, "NXM_NX_TUN_METADATA26")];
    TunMetadata27: "tun_metadata27" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 67, 0, "NXM_NX_TUN_METADATA27")];
    TunMetadata28: "tun_metadata28" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 68, 0, "NXM_NX_TUN_METADATA28")];
    TunMetadata29: "tun_metadata29" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 69, 0, "NXM_NX_TUN_METADATA29")];
    TunMetadata30: "tun_metadata30" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 70, 0, "NXM_NX_TUN_METADATA30")];
    TunMetadata31: "tun_metadata31" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 71, 0, "NXM_NX_TUN_METADATA31")];
    TunMetadata32: "tun_metadata32" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 72, 0, "NXM_NX_TUN_METADATA32")];
    TunMetadata33: "tun_metadata33" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 73, 0, "NXM_NX_TUN_METADATA33")];
    TunMetadata34: "tun_metadata34" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 74, 0, "NXM_NX_TUN_METADATA34")];
    TunMetadata35: "tun_metadata35" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 75, 0, "NXM_NX_TUN_METADATA35")];
    TunMetadata36: "tun_metadata36" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 76, 0, "NXM_NX_TUN_METADATA36")];
    TunMetadata37: "tun_metadata37" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 77, 0, "NXM_NX_TUN_METADATA37")];
    TunMetadata38: "tun_metadata38" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 78, 0, "NXM_NX_TUN_METADATA38")];
    TunMetadata39: "tun_metadata39" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 79, 0, "NXM_NX_TUN_METADATA39")];
    TunMetadata40: "tun_metadata40" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 80, 0, "NXM_NX_TUN_METADATA40")];
    TunMetadata41: "tun_metadata41" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 81, 0, "NXM_NX_TUN_METADATA41")];
    TunMetadata42: "tun_metadata42" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 82, 0, "NXM_NX_TUN_METADATA42")];
    TunMetadata43: "tun_metadata43" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 83, 0, "NXM_NX_TUN_METADATA43")];
    TunMetadata44: "tun_metadata44" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 84, 0, "NXM_NX_TUN_METADATA44")];
    TunMetadata45: "tun_metadata45" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 85, 0, "NXM_NX_TUN_METADATA45")];
    TunMetadata46: "tun_metadata46" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 86, 0, "NXM_NX_TUN_METADATA46")];
    TunMetadata47: "tun_metadata47" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 87, 0, "NXM_NX_TUN_METADATA47")];
    TunMetadata48: "tun_metadata48" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 88, 0, "NXM_NX_TUN_METADATA48")];
    TunMetadata49: "tun_metadata49" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 89, 0, "NXM_NX_TUN_METADATA49")];
    TunMetadata50: "tun_metadata50" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 90, 0, "NXM_NX_TUN_METADATA50")];
    TunMetadata51: "tun_metadata51" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 91, 0, "NXM_NX_TUN_METADATA51")];
    TunMetadata52: "tun_metadata52" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 92, 0, "NXM_NX_TUN_METADATA52")];
    TunMetadata53: "tun_metadata53" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 93, 0, "NXM_NX_TUN_METADATA53")];
    TunMetadata54: "tun_metadata54" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 94, 0, "NXM_NX_TUN_METADATA54")];
    TunMetadata55: "tun_metadata55" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 95, 0, "NXM_NX_TUN_METADATA55")];
    TunMetadata56: "tun_metadata56" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 96, 0, "NXM_NX_TUN_METADATA56")];
    TunMetadata57: "tun_metadata57" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 97, 0, "NXM_NX_TUN_METADATA57")];
    TunMetadata58: "tun_metadata58" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 98, 0, "NXM_NX_TUN_METADATA58")];
    TunMetadata59: "tun_metadata59" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 99, 0, "NXM_NX_TUN_METADATA59")];
    TunMetadata60: "tun_metadata60" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 100, 0, "NXM_NX_TUN_METADATA60")];
    TunMetadata61: "tun_metadata61" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 101, 0, "NXM_NX_TUN_METADATA61")];
    TunMetadata62: "tun_metadata62" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 102, 0, "NXM_NX_TUN_METADATA62")];
    TunMetadata63: "tun_metadata63" "", 124 992 Bitwise Hex None Rw OXM_ANY,
        TLV, [(NXM1, 103, 0, "NXM_NX_TUN_METADATA63")];
    Metadata: "metadata" "", 8 64 Bitwise Hex None Rw OF11_ANY,
        at(offset_of!(Flow, metadata), 8, 1, u64::MAX as u128, 0), [(OXM, 2, 3, "OXM_OF_METADATA")];
    InPort: "in_port" "", 2 16 Whole OfPort None Rw ANY_EXACT,
        at(offset_of!(Flow, in_port), 4, 1, 0xffff_ffff, 0), [(NXM0, 0, 0, "NXM_OF_IN_PORT")];
    InPortOxm: "in_port_oxm" "", 4 32 Whole OfPortOxm None Rw OF11_EXACT,
        at(offset_of!(Flow, in_port), 4, 1, 0xffff_ffff, 0), [(OXM, 0, 3, "OXM_OF_IN_PORT")];
    ActsetOutput: "actset_output" "", 4 32 Whole OfPortOxm None Ro OXM_EXACT,
        at(offset_of!(Flow, actset_output), 2, 1, 0xffff, 0), [(ONFOXM_ET, 43, 4, "ONFOXM_ET_ACTSET_OUTPUT"), (OXM, 43, 6, "OXM_OF_ACTSET_OUTPUT")];
    SkbPriority: "skb_priority" "", 4 32 Whole Hex None Ro NOT,
        at(offset_of!(Flow, skb_priority), 4, 1, 0xffff_ffff, 0), [];
    PktMark: "pkt_mark" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        at(offset_of!(Flow, pkt_mark), 4, 1, 0xffff_ffff, 0), [(NXM1, 33, 0, "NXM_NX_PKT_MARK")];
    CtState: "ct_state" "", 4 32 Bitwise CtState None Ro OXM_ANY,
        at(offset_of!(Flow, ct_state), 1, 1, 0xff, 0), [(NXM1, 105, 0, "NXM_NX_CT_STATE")];
    CtZone: "ct_zone" "", 2 16 Whole Hex None Ro OXM_EXACT,
        at(offset_of!(Flow, ct_zone), 2, 1, 0xffff, 0), [(NXM1, 106, 0, "NXM_NX_CT_ZONE")];
    CtMark: "ct_mark" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        at(offset_of!(Flow, ct_mark), 4, 1, 0xffff_ffff, 0), [(NXM1, 107, 0, "NXM_NX_CT_MARK")];
    CtLabel: "ct_label" "", 16 128 Bitwise Hex None Rw OXM_ANY,
        at(offset_of!(Flow, ct_label), 8, 2, u128::MAX, 0), [(NXM1, 108, 0, "NXM_NX_CT_LABEL")];
    CtNwProto: "ct_nw_proto" "", 1 8 Whole Decimal CtValid Ro OXM_EXACT,
        at(offset_of!(Flow, ct_nw_proto), 1, 1, 0xff, 0), [(NXM1, 119, 0, "NXM_NX_CT_NW_PROTO")];
    CtNwSrc: "ct_nw_src" "", 4 32 Bitwise Ipv4 CtValid Ro OXM_ANY,
        at(offset_of!(Flow, ct_nw_src), 4, 1, 0xffff_ffff, 0), [(NXM1, 120, 0, "NXM_NX_CT_NW_SRC")];
    CtNwDst: "ct_nw_dst" "", 4 32 Bitwise Ipv4 CtValid Ro OXM_ANY,
        at(offset_of!(Flow, ct_nw_dst), 4, 1, 0xffff_ffff, 0), [(NXM1, 121, 0, "NXM_NX_CT_NW_DST")];
    CtIpv6Src: "ct_ipv6_src" "", 16 128 Bitwise Ipv6 CtValid Ro OXM_ANY,
        bytes(offset_of!(Flow, ct_ipv6_src), 16), [(NXM1, 122, 0, "NXM_NX_CT_IPV6_SRC")];
    CtIpv6Dst: "ct_ipv6_dst" "", 16 128 Bitwise Ipv6 CtValid Ro OXM_ANY,
        bytes(offset_of!(Flow, ct_ipv6_dst), 16), [(NXM1, 123, 0, "NXM_NX_CT_IPV6_DST")];
    CtTpSrc: "ct_tp_src" "", 2 16 Bitwise Decimal CtValid Ro OXM_ANY,
        at(offset_of!(Flow, ct_tp_src), 2, 1, 0xffff, 0), [(NXM1, 124, 0, "NXM_NX_CT_TP_SRC")];
    CtTpDst: "ct_tp_dst" "", 2 16 Bitwise Decimal CtValid Ro OXM_ANY,
        at(offset_of!(Flow, ct_tp_dst), 2, 1, 0xffff, 0), [(NXM1, 125, 0, "NXM_NX_CT_TP_DST")];
    Reg0: "reg0" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(0, 1), [(NXM1, 0, 0, "NXM_NX_REG0")];
    Reg1: "reg1" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(1, 1), [(NXM1, 1, 0, "NXM_NX_REG1")];
    Reg2: "reg2" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(2, 1), [(NXM1, 2, 0, "NXM_NX_REG2")];
    Reg3: "reg3" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(3, 1), [(NXM1, 3, 0, "NXM_NX_REG3")];
    Reg4: "reg4" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(4, 1), [(NXM1, 4, 0, "NXM_NX_REG4")];
    Reg5: "reg5" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(5, 1), [(NXM1, 5, 0, "NXM_NX_REG5")];
    Reg6: "reg6" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(6, 1), [(NXM1, 6, 0, "NXM_NX_REG6")];
    Reg7: "reg7" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(7, 1), [(NXM1, 7, 0, "NXM_NX_REG7")];
    Reg8: "reg8" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(8, 1), [(NXM1, 8, 0, "NXM_NX_REG8")];
    Reg9: "reg9" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(9, 1), [(NXM1, 9, 0, "NXM_NX_REG9")];
    Reg10: "reg10" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(10, 1), [(NXM1, 10, 0, "NXM_NX_REG10")];
    Reg11: "reg11" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(11, 1), [(NXM1, 11, 0, "NXM_NX_REG11")];
    Reg12: "reg12" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(12, 1), [(NXM1, 12, 0, "NXM_NX_REG12")];
    Reg13: "reg13" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(13, 1), [(NXM1, 13, 0, "NXM_NX_REG13")];
    Reg14: "reg14" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(14, 1), [(NXM1, 14, 0, "NXM_NX_REG14")];
    Reg15: "reg15" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(15, 1), [(NXM1, 15, 0, "NXM_NX_REG15")];
    Reg16: "reg16" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(16, 1), [(NXOXM_ET, 17, 0, "NXOXM_ET_REG16")];
    Reg17: "reg17" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(17, 1), [(NXOXM_ET, 18, 0, "NXOXM_ET_REG17")];
    Reg18: "reg18" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(18, 1), [(NXOXM_ET, 19, 0, "NXOXM_ET_REG18")];
    Reg19: "reg19" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(19, 1), [(NXOXM_ET, 20, 0, "NXOXM_ET_REG19")];
    Reg20: "reg20" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(20, 1), [(NXOXM_ET, 21, 0, "NXOXM_ET_REG20")];
    Reg21: "reg21" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(21, 1), [(NXOXM_ET, 22, 0, "NXOXM_ET_REG21")];
    Reg22: "reg22" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(22, 1), [(NXOXM_ET, 23, 0, "NXOXM_ET_REG22")];
    Reg23: "reg23" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(23, 1), [(NXOXM_ET, 24, 0, "NXOXM_ET_REG23")];
    Reg24: "reg24" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(24, 1), [(NXOXM_ET, 25, 0, "NXOXM_ET_REG24")];
    Reg25: "reg25" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(25, 1), [(NXOXM_ET, 26, 0, "NXOXM_ET_REG25")];
    Reg26: "reg26" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(26, 1), [(NXOXM_ET, 27, 0, "NXOXM_ET_REG26")];
    Reg27: "reg27" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(27, 1), [(NXOXM_ET, 28, 0, "NXOXM_ET_REG27")];
    Reg28: "reg28" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(28, 1), [(NXOXM_ET, 29, 0, "NXOXM_ET_REG28")];
    Reg29: "reg29" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(29, 1), [(NXOXM_ET, 30, 0, "NXOXM_ET_REG29")];
    Reg30: "reg30" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(30, 1), [(NXOXM_ET, 31, 0, "NXOXM_ET_REG30")];
    Reg31: "reg31" "", 4 32 Bitwise Hex None Rw OXM_ANY,
        reg(31, 1), [(NXOXM_ET, 32, 0, "NXOXM_ET_REG31")];
    Xreg0: "xreg0" "", 8 64 Bitwise Hex None Rw OXM_ANY,
        reg(0, 2), [(PKT, 0, 4, "OXM_OF_PKT_REG0")];
    Xreg1: "xreg1" "", 8 64 Bitwise Hex None Rw OXM_ANY,
        reg(2, 2), [(PKT, 1, 4, "OXM_OF_PKT_REG1")];
    Xreg2: "xreg2" "", 8 64 Bitwise Hex None Rw OXM_ANY,
        reg(4, 2), [(PKT, 2, 4, "OXM_OF_PKT_REG2")];
    Xreg3: "xreg3" "", 8 64 Bitwise Hex None Rw OXM_ANY,
        reg(6, 2), [(PKT, 3, 4, "OXM_OF_PKT_REG3")];
    Xreg4: "xreg4" "", 8 64 Bitwise Hex None Rw OXM_ANY,
        reg(8, 2), [(PKT, 4, 4, "OXM_OF_PKT_REG4")];
    Xreg5: "xreg5" "", 8 64 Bitwise Hex None Rw OXM_ANY,
        reg(10, 2), [(PKT, 5, 4, "OXM_OF_PKT_REG5")];
    Xreg6: "xreg6" "", 8 64 Bitwise Hex None Rw OXM_ANY,
        reg(12, 2), [(PKT, 6, 4, "OXM_OF_PKT_REG6")];
    Xreg7: "xreg7" "", 8 64 Bitwise Hex None Rw OXM_ANY,
        reg(14, 2), [(PKT, 7, 4, "OXM_OF_PKT_REG7")];
    Xreg8: "xreg8" "", 8 64 Bitwise Hex None Rw OXM_ANY,
        reg(16, 2), [(PKT, 8, 4, "OXM_OF_PKT_REG8")];
    Xreg9: "xreg9" "", 8 64 Bitwise Hex None Rw OXM_ANY,
        reg(18, 2), [(PKT, 9, 4, "OXM_OF_PKT_REG9")];
    Xreg10: "xreg10" "", 8 64 Bitwise Hex None Rw OXM_ANY,
        reg(20, 2), [(PKT, 10, 4, "OXM_OF_PKT_REG10")];
    Xreg11: "xreg11" "", 8 64 Bitwise Hex None Rw OXM_ANY,
        reg(22, 2), [(PKT, 11, 4, "OXM_OF_PKT_REG11")];
    Xreg12: "xreg12" "", 8 64 Bitwise Hex None Rw OXM_ANY,
        reg(24, 2), [(PKT, 12, 4, "OXM_OF_PKT_REG12")];
    Xreg13: "xreg13" "", 8 64 Bitwise Hex None Rw OXM_ANY,
        reg(26, 2), [(PKT, 13, 4, "OXM_OF_PKT_REG13")];
    Xreg14: "xreg14" "", 8 64 Bitwise Hex None Rw OXM_ANY,
        reg(28, 2), [(PKT, 14, 4, "OXM_OF_PKT_REG14")];
    Xreg15: "xreg15" "", 8 64 Bitwise Hex None Rw OXM_ANY,
        reg(30, 2), [(PKT, 15, 4, "OXM_OF_PKT_REG15")];
    Xxreg0: "xxreg0" "", 16 128 Bitwise Hex None Rw OXM_ANY,
        reg(0, 4), [(NXM1, 111, 0, "NXM_NX_XXREG0")];
    Xxreg1: "xxreg1" "", 16 128 Bitwise Hex None Rw OXM_ANY,
        reg(4, 4), [(NXM1, 112, 0, "NXM_NX_XXREG1")];
    Xxreg2: "xxreg2" "", 16 128 Bitwise Hex None Rw OXM_ANY,
        reg(8, 4), [(NXM1, 113, 0, "NXM_NX_XXREG2")];
    Xxreg3: "xxreg3" "", 16 128 Bitwise Hex None Rw OXM_ANY,
        reg(12, 4), [(NXM1, 114, 0, "NXM_NX_XXREG3")];
    Xxreg4: "xxreg4" "", 16 128 Bitwise Hex None Rw OXM_ANY,
        reg(16, 4), [(NXOXM_ET, 33, 0, "NXOXM_ET_XXREG4")];
    Xxreg5: "xxreg5" "", 16 128 Bitwise Hex None Rw OXM_ANY,
        reg(20, 4), [(NXOXM_ET, 34, 0, "NXOXM_ET_XXREG5")];
    Xxreg6: "xxreg6" "", 16 128 Bitwise Hex None Rw OXM_ANY,
        reg(24, 4), [(NXOXM_ET, 35, 0, "NXOXM_ET_XXREG6")];
    Xxreg7: "xxreg7" "", 16 128 Bitwise Hex None Rw OXM_ANY,
        reg(28, 4), [(NXOXM_ET, 36, 0, "NXOXM_ET_XXREG7")];
    EthSrc: "eth_src" "dl_src", 6 48 Bitwise Ethernet Ethernet Rw ANY_OF11,
        bytes(offset_of!(Flow, dl_src), 6), [(NXM0, 2, 0, "NXM_OF_ETH_SRC"), (OXM, 4, 3, "OXM_OF_ETH_SRC")];
    EthDst: "eth_dst" "dl_dst", 6 48 Bitwise Ethernet Ethernet Rw ANY_OF11,
        bytes(offset_of!(Flow, dl_dst), 6), [(NXM0, 1, 0, "NXM_OF_ETH_DST"), (OXM, 3, 3, "OXM_OF_ETH_DST")];
    EthType: "eth_type" "dl_type", 2 16 Whole Hex Ethernet Ro ANY_EXACT,
        at(offset_of!(Flow, dl_type), 2, 1, 0xffff, 0), [(NXM0, 3, 0, "NXM_OF_ETH_TYPE"), (OXM, 5, 3, "OXM_OF_ETH_TYPE")];
    VlanTci: "vlan_tci" "", 2 16 Bitwise Hex Ethernet Rw ANY_OXM,
        vlan(0xffff, 0), [(NXM0, 4, 0, "NXM_OF_VLAN_TCI")];
    DlVlan: "dl_vlan" "", 2 12 Whole Decimal Ethernet Rw ANY_EXACT,
        vlan(0x0fff, 0), [];
    VlanVid: "vlan_vid" "", 2 12 Bitwise Decimal Ethernet Rw ANY_OXM,
        vlan(0x1fff, 0), [(OXM, 6, 3, "OXM_OF_VLAN_VID")];
    DlVlanPcp: "dl_vlan_pcp" "", 1 3 Whole Decimal Ethernet Rw ANY_EXACT,
        vlan(0xe000, 13), [];
    VlanPcp: "vlan_pcp" "", 1 3 Whole Decimal VlanVid Rw ANY_EXACT,
        vlan(0xe000, 13), [(OXM, 7, 3, "OXM_OF_VLAN_PCP")];
    MplsLabel: "mpls_label" "", 4 20 Whole Decimal Mpls Rw OF11_EXACT,
        mpls(0xffff_f000, 12), [(OXM, 34, 3, "OXM_OF_MPLS_LABEL")];
    MplsTc: "mpls_tc" "", 1 3 Whole Decimal Mpls Rw OF11_EXACT,
        mpls(0xe00, 9), [(OXM, 35, 3, "OXM_OF_MPLS_TC")];
    MplsBos: "mpls_bos" "", 1 1 Whole Decimal Mpls Ro OXM_EXACT,
        mpls(0x100, 8), [(OXM, 36, 4, "OXM_OF_MPLS_BOS")];
    MplsTtl: "mpls_ttl" "", 1 8 Whole Decimal Mpls Rw OXM_EXACT,
        mpls(0xff, 0), [(NXM1, 30, 0, "NXM_NX_MPLS_TTL")];
    Ipv4Src: "ip_src" "nw_src", 4 32 Bitwise Ipv4 Ipv4 Rw ANY_CIDR,
        at(offset_of!(Flow, nw_src), 4, 1, 0xffff_ffff, 0), [(NXM0, 7, 0, "NXM_OF_IP_SRC"), (OXM, 11, 3, "OXM_OF_IPV4_SRC")];
    Ipv4Dst: "ip_dst" "nw_dst", 4 32 Bitwise Ipv4 Ipv4 Rw ANY_CIDR,
        at(offset_of!(Flow, nw_dst), 4, 1, 0xffff_ffff, 0), [(NXM0, 8, 0, "NXM_OF_IP_DST"), (OXM, 12, 3, "OXM_OF_IPV4_DST")];
    Ipv6Src: "ipv6_src" "", 16 128 Bitwise Ipv6 Ipv6 Rw OXM_ANY,
        bytes(offset_of!(Flow, ipv6_src), 16), [(NXM1, 19, 0, "NXM_NX_IPV6_SRC"), (OXM, 26, 3, "OXM_OF_IPV6_SRC")];
    Ipv6Dst: "ipv6_dst" "", 16 128 Bitwise Ipv6 Ipv6 Rw OXM_ANY,
        bytes(offset_of!(Flow, ipv6_dst), 16), [(NXM1, 20, 0, "NXM_NX_IPV6_DST"), (OXM, 27, 3, "OXM_OF_IPV6_DST")];
    Ipv6Label: "ipv6_label" "", 4 20 Bitwise Hex Ipv6 Rw OXM_ANY,
        at(offset_of!(Flow, ipv6_label), 4, 1, 0xffff_ffff, 0), [(NXM1, 27, 0, "NXM_NX_IPV6_LABEL"), (OXM, 28, 3, "OXM_OF_IPV6_FLABEL")];
    IpProto: "nw_proto" "ip_proto", 1 8 Whole Decimal IpAny Ro ANY_EXACT,
        at(offset_of!(Flow, nw_proto), 1, 1, 0xff, 0), [(NXM0, 6, 0, "NXM_OF_IP_PROTO"), (OXM, 10, 3, "OXM_OF_IP_PROTO")];
    IpDscp: "nw_tos" "", 1 8 Whole Decimal IpAny Rw ANY_EXACT,
        at(offset_of!(Flow, nw_tos), 1, 1, 0xfc, 0), [(NXM0, 5, 0, "NXM_OF_IP_TOS")];
    IpDscpShifted: "ip_dscp" "", 1 6 Whole Decimal IpAny Rw ANY_EXACT,
        at(offset_of!(Flow, nw_tos), 1, 1, 0xfc, 2), [(OXM, 8, 3, "OXM_OF_IP_DSCP")];
    IpEcn: "nw_ecn" "ip_ecn", 1 2 Whole Decimal IpAny Rw OF11_EXACT,
        at(offset_of!(Flow, nw_tos), 1, 1, 3, 0), [(NXM1, 28, 0, "NXM_NX_IP_ECN"), (OXM, 9, 3, "OXM_OF_IP_ECN")];
    IpTtl: "nw_ttl" "", 1 8 Whole Decimal IpAny Rw OXM_EXACT,
        at(offset_of!(Flow, nw_ttl), 1, 1, 0xff, 0), [(NXM1, 29, 0, "NXM_NX_IP_TTL")];
    IpFrag: "ip_frag" "nw_frag", 1 2 Bitwise Frag IpAny Ro OXM_ANY,
        at(offset_of!(Flow, nw_frag), 1, 1, 3, 0), [(NXM1, 26, 0, "NXM_NX_IP_FRAG")];
    ArpOp: "arp_op" "", 2 16 Whole Decimal Arp Rw ANY_EXACT,
        at(offset_of!(Flow, nw_proto), 1, 1, 0xff, 0), [(NXM0, 15, 0, "NXM_OF_ARP_OP"), (OXM, 21, 3, "OXM_OF_ARP_OP")];
    ArpSpa: "arp_spa" "", 4 32 Bitwise Ipv4 Arp Rw ANY_CIDR,
        at(offset_of!(Flow, nw_src), 4, 1, 0xffff_ffff, 0), [(NXM0, 16, 0, "NXM_OF_ARP_SPA"), (OXM, 22, 3, "OXM_OF_ARP_SPA")];
    ArpTpa: "arp_tpa" "", 4 32 Bitwise Ipv4 Arp Rw ANY_CIDR,
        at(offset_of!(Flow, nw_dst), 4, 1, 0xffff_ffff, 0), [(NXM0, 17, 0, "NXM_OF_ARP_TPA"), (OXM, 23, 3, "OXM_OF_ARP_TPA")];
    ArpSha: "arp_sha" "", 6 48 Bitwise Ethernet Arp Rw OXM_ANY,
        bytes(offset_of!(Flow, arp_sha), 6), [(NXM1, 17, 0, "NXM_NX_ARP_SHA"), (OXM, 24, 3, "OXM_OF_ARP_SHA")];
    ArpTha: "arp_tha" "", 6 48 Bitwise Ethernet Arp Rw OXM_ANY,
        bytes(offset_of!(Flow, arp_tha), 6), [(NXM1, 18, 0, "NXM_NX_ARP_THA"), (OXM, 25, 3, "OXM_OF_ARP_THA")];
    TcpSrc: "tcp_src" "tp_src", 2 16 Bitwise Decimal Tcp Rw ANY_OXM,
        at(offset_of!(Flow, tp_src), 2, 1, 0xffff, 0), [(NXM0, 9, 0, "NXM_OF_TCP_SRC"), (OXM, 13, 3, "OXM_OF_TCP_SRC")];
    TcpDst: "tcp_dst" "tp_dst", 2 16 Bitwise Decimal Tcp Rw ANY_OXM,
        at(offset_of!(Flow, tp_dst), 2, 1, 0xffff, 0), [(NXM0, 10, 0, "NXM_OF_TCP_DST"), (OXM, 14, 3, "OXM_OF_TCP_DST")];
    TcpFlags: "tcp_flags" "", 2 12 Bitwise TcpFlags Tcp Ro OXM_ANY,
        at(offset_of!(Flow, tcp_flags), 2, 1, 0xffff, 0), [(NXM1, 34, 0, "NXM_NX_TCP_FLAGS"), (ONFOXM_ET, 42, 4, "ONFOXM_ET_TCP_FLAGS"), (OXM, 42, 6, "OXM_OF_TCP_FLAGS")];
    UdpSrc: "udp_src" "", 2 16 Bitwise Decimal Udp Rw ANY_OXM,
        at(offset_of!(Flow, tp_src), 2, 1, 0xffff, 0), [(NXM0, 11, 0, "NXM_OF_UDP_SRC"), (OXM, 15, 3, "OXM_OF_UDP_SRC")];
    UdpDst: "udp_dst" "", 2 16 Bitwise Decimal Udp Rw ANY_OXM,
        at(offset_of!(Flow, tp_dst), 2, 1, 0xffff, 0), [(NXM0, 12, 0, "NXM_OF_UDP_DST"), (OXM, 16, 3, "OXM_OF_UDP_DST")];
    SctpSrc: "sctp_src" "", 2 16 Bitwise Decimal Sctp Rw OF11_OXM,
        at(offset_of!(Flow, tp_src), 2, 1, 0xffff, 0), [(OXM, 17, 3, "OXM_OF_SCTP_SRC")];
    SctpDst: "sctp_dst" "", 2 16 Bitwise Decimal Sctp Rw OF11_OXM,
        at(offset_of!(Flow, tp_dst), 2, 1, 0xffff, 0), [(OXM, 18, 3, "OXM_OF_SCTP_DST")];
    Icmpv4Type: "icmp_type" "", 1 8 Whole Decimal Icmpv4 Rw ANY_EXACT,
        at(offset_of!(Flow, tp_src), 2, 1, 0xffff, 0), [(NXM0, 13, 0, "NXM_OF_ICMP_TYPE"), (OXM, 19, 3, "OXM_OF_ICMPV4_TYPE")];
    Icmpv4Code: "icmp_code" "", 1 8 Whole Decimal Icmpv4 Rw ANY_EXACT,
        at(offset_of!(Flow, tp_dst), 2, 1, 0xffff, 0), [(NXM0, 14, 0, "NXM_OF_ICMP_CODE"), (OXM, 20, 3, "OXM_OF_ICMPV4_CODE")];
    Icmpv6Type: "icmpv6_type" "", 1 8 Whole Decimal Icmpv6 Rw OXM_EXACT,
        at(offset_of!(Flow, tp_src), 2, 1, 0xffff, 0), [(NXM1, 21, 0, "NXM_NX_ICMPV6_TYPE"), (OXM, 29, 3, "OXM_OF_ICMPV6_TYPE")];
    Icmpv6Code: "icmpv6_code" "", 1 8 Whole Decimal Icmpv6 Rw OXM_EXACT,
        at(offset_of!(Flow, tp_dst), 2, 1, 0xffff, 0), [(NXM1, 22, 0, "NXM_NX_ICMPV6_CODE"), (OXM, 30, 3, "OXM_OF_ICMPV6_CODE")];
    NdTarget: "nd_target" "", 16 128 Bitwise Ipv6 Nd Rw OXM_ANY,
        bytes(offset_of!(Flow, nd_target), 16), [(NXM1, 23, 0, "NXM_NX_ND_TARGET"), (OXM, 31, 3, "OXM_OF_IPV6_ND_TARGET")];
    NdSll: "nd_sll" "", 6 48 Bitwise Ethernet NdSolicit Rw OXM_ANY,
        bytes(offset_of!(Flow, arp_sha), 6), [(NXM1, 24, 0, "NXM_NX_ND_SLL"), (OXM, 32, 3, "OXM_OF_IPV6_ND_SLL")];
    NdTll: "nd_tll" "", 6 48 Bitwise Ethernet NdAdvert Rw OXM_ANY,
        bytes(offset_of!(Flow, arp_tha), 6), [(NXM1, 25, 0, "NXM_NX_ND_TLL"), (OXM, 33, 3, "OXM_OF_IPV6_ND_TLL")];
    NdReserved: "nd_reserved" "", 4 32 Whole Decimal Nd Rw OXM_EXACT,
        at(offset_of!(Flow, igmp_group_ip4), 4, 1, 0xffff_ffff, 0), [(ERIC, 1, 0, "ERICOXM_OF_ICMPV6_ND_RESERVED")];
    NdOptionsType: "nd_options_type" "", 1 8 Whole Decimal Nd Rw OXM_EXACT,
        at(offset_of!(Flow, tcp_flags), 2, 1, 0xffff, 0), [(ERIC, 2, 0, "ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE")];
    NshFlags: "nsh_flags" "", 1 8 Bitwise Decimal Nsh Rw OXM_ANY,
        at(offset_of!(Flow, nsh.flags), 1, 1, 0xff, 0), [(NXOXM_NSH, 1, 0, "NXOXM_NSH_FLAGS")];
    NshMdtype: "nsh_mdtype" "", 1 8 Whole Decimal Nsh Ro OXM_EXACT,
        at(offset_of!(Flow, nsh.md_type), 1, 1, 0xff, 0), [(NXOXM_NSH, 2, 0, "NXOXM_NSH_MDTYPE")];
    NshNp: "nsh_np" "", 1 8 Whole Decimal Nsh Ro OXM_EXACT,
        at(offset_of!(Flow, nsh.np), 1, 1, 0xff, 0), [(NXOXM_NSH, 3, 0, "NXOXM_NSH_NP")];
    NshSpi: "nsh_spi" "nsp", 4 24 Whole Hex Nsh Rw OXM_EXACT,
        at(offset_of!(Flow, nsh.path), 4, 1, 0xffff_ff00, 8), [(NXOXM_NSH, 4, 0, "NXOXM_NSH_SPI")];
    NshSi: "nsh_si" "nsi", 1 8 Whole Decimal Nsh Rw OXM_EXACT,
        at(offset_of!(Flow, nsh.path), 4, 1, 0xff, 0), [(NXOXM_NSH, 5, 0, "NXOXM_NSH_SI")];
    NshC1: "nsh_c1" "nshc1", 4 32 Bitwise Hex Nsh Rw OXM_ANY,
        at(offset_of!(Flow, nsh.context), 4, 1, 0xffff_ffff, 0), [(NXOXM_NSH, 6, 0, "NXOXM_NSH_C1")];
    NshC2: "nsh_c2" "nshc2", 4 32 Bitwise Hex Nsh Rw OXM_ANY,
        at(offset_of!(Flow, nsh.context) + 4, 4, 1, 0xffff_ffff, 0), [(NXOXM_NSH, 7, 0, "NXOXM_NSH_C2")];
    NshC3: "nsh_c3" "nshc3", 4 32 Bitwise Hex Nsh Rw OXM_ANY,
        at(offset_of!(Flow, nsh.context) + 8, 4, 1, 0xffff_ffff, 0), [(NXOXM_NSH, 8, 0, "NXOXM_NSH_C3")];
    NshC4: "nsh_c4" "nshc4", 4 32 Bitwise Hex Nsh Rw OXM_ANY,
        at(offset_of!(Flow, nsh.context) + 12, 4, 1, 0xffff_ffff, 0), [(NXOXM_NSH, 9, 0, "NXOXM_NSH_C4")];
    NshTtl: "nsh_ttl" "", 1 8 Whole Decimal Nsh Rw OXM_EXACT,
        at(offset_of!(Flow, nsh.ttl), 1, 1, 0xff, 0), [(NXOXM_NSH, 10, 0, "NXOXM_NSH_TTL")];
}
