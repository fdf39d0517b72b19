//! The table of errors: for each error its name, then vendor, type and code for ranges of versions (0 is 1.0, 5 is 1.5).

#![allow(missing_docs)]

use super::code::{Code, NX_VENDOR, ONF_VENDOR};
use std::ops::RangeInclusive;

const OF: u32 = 0;
const NX: u32 = NX_VENDOR;
const ONF: u32 = ONF_VENDOR;

type Row = (&'static str, &'static [(RangeInclusive<u8>, Code)]);

macro_rules! errors {
    ($($variant:ident $name:literal $({ $vendor:ident $range:expr, $kind:literal $code:literal })*;)*) => {
        /// An error reported by a switch. `name()` returns the name in the standard.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum OfError {
            $($variant,)*
        }

        impl OfError {
            /// All errors.
            pub const ALL: &'static [OfError] = &[$(OfError::$variant,)*];

            pub(super) fn row(self) -> Row {
                match self {
                    $(OfError::$variant => {
                        ($name, &[$(($range, Code { vendor: $vendor, kind: $kind, code: $code })),*])
                    })*
                }
            }
        }
    };
}

errors! {
    HfcIncompatible "OFPHFC_INCOMPATIBLE" { OF 0..=5, 0 0 };
    HfcEperm "OFPHFC_EPERM" { OF 0..=5, 0 1 };
    BrcBadVersion "OFPBRC_BAD_VERSION" { OF 0..=5, 1 0 };
    BrcBadType "OFPBRC_BAD_TYPE" { OF 0..=5, 1 1 };
    BrcBadStat "OFPBRC_BAD_STAT" { OF 0..=5, 1 2 };
    BrcBadVendor "OFPBRC_BAD_VENDOR" { OF 0..=5, 1 3 };
    BrcBadSubtype "OFPBRC_BAD_SUBTYPE" { OF 0..=5, 1 4 };
    BrcEperm "OFPBRC_EPERM" { OF 0..=5, 1 5 };
    BrcBadLen "OFPBRC_BAD_LEN" { OF 0..=5, 1 6 };
    BrcBufferEmpty "OFPBRC_BUFFER_EMPTY" { OF 0..=5, 1 7 };
    BrcBufferUnknown "OFPBRC_BUFFER_UNKNOWN" { OF 0..=5, 1 8 };
    BrcBadTableId "OFPBRC_BAD_TABLE_ID" { NX 0..=0, 1 512 } { OF 1..=5, 1 9 };
    BrcIsSecondary "OFPBRC_IS_SECONDARY" { OF 0..=1, 1 5 } { OF 2..=5, 1 10 };
    BrcBadPort "OFPBRC_BAD_PORT" { NX 0..=1, 1 514 } { OF 2..=5, 1 11 };
    BrcBadPacket "OFPBRC_BAD_PACKET" { OF 2..=5, 1 12 };
    BrcMultipartBufferOverflow "OFPBRC_MULTIPART_BUFFER_OVERFLOW" { OF 3..=5, 1 13 };
    BrcMultipartRequestTimeout "OFPBRC_MULTIPART_REQUEST_TIMEOUT" { ONF 3..=3, 2640 0 } { OF 4..=5, 1 14 };
    BrcMultipartReplyTimeout "OFPBRC_MULTIPART_REPLY_TIMEOUT" { ONF 3..=3, 2641 0 } { OF 4..=5, 1 15 };
    BrcMultipartBadSched "OFPBRC_MULTIPART_BAD_SCHED" { OF 5..=5, 1 16 };
    BrcPipelineFieldsOnly "OFPBRC_PIPELINE_FIELDS_ONLY" { OF 5..=5, 1 17 };
    BrcUnknown "OFPBRC_UNKNOWN" { OF 5..=5, 1 18 };
    NxbrcNxmInvalid "NXBRC_NXM_INVALID" { NX 0..=1, 1 256 } { NX 2..=5, 2 0 };
    NxbrcNxmBadType "NXBRC_NXM_BAD_TYPE" { NX 0..=1, 1 257 } { NX 2..=5, 3 0 };
    NxbrcMustBeZero "NXBRC_MUST_BE_ZERO" { NX 0..=1, 1 515 } { NX 2..=5, 4 0 };
    NxbrcBadReason "NXBRC_BAD_REASON" { NX 0..=1, 1 516 } { NX 2..=5, 5 0 };
    NxbrcFmBadEvent "NXBRC_FM_BAD_EVENT" { NX 0..=1, 1 520 } { NX 2..=5, 9 0 };
    NxbrcUnencodableError "NXBRC_UNENCODABLE_ERROR" { NX 0..=1, 1 521 } { NX 2..=5, 10 0 };
    BacBadType "OFPBAC_BAD_TYPE" { OF 0..=5, 2 0 };
    BacBadLen "OFPBAC_BAD_LEN" { OF 0..=5, 2 1 };
    BacBadVendor "OFPBAC_BAD_VENDOR" { OF 0..=5, 2 2 };
    BacBadVendorType "OFPBAC_BAD_VENDOR_TYPE" { OF 0..=5, 2 3 };
    BacBadOutPort "OFPBAC_BAD_OUT_PORT" { OF 0..=5, 2 4 };
    BacBadArgument "OFPBAC_BAD_ARGUMENT" { OF 0..=5, 2 5 };
    BacEperm "OFPBAC_EPERM" { OF 0..=5, 2 6 };
    BacTooMany "OFPBAC_TOO_MANY" { OF 0..=5, 2 7 };
    BacBadQueue "OFPBAC_BAD_QUEUE" { OF 0..=5, 2 8 };
    BacBadOutGroup "OFPBAC_BAD_OUT_GROUP" { NX 0..=0, 2 9 } { OF 1..=5, 2 9 };
    BacMatchInconsistent "OFPBAC_MATCH_INCONSISTENT" { NX 0..=0, 1 522 } { OF 1..=5, 2 10 };
    BacUnsupportedOrder "OFPBAC_UNSUPPORTED_ORDER" { OF 1..=5, 2 11 };
    BacBadTag "OFPBAC_BAD_TAG" { OF 1..=5, 2 12 };
    BacBadSetType "OFPBAC_BAD_SET_TYPE" { NX 0..=1, 1 523 } { OF 2..=5, 2 13 };
    BacBadSetLen "OFPBAC_BAD_SET_LEN" { NX 0..=1, 1 524 } { OF 2..=5, 2 14 };
    BacBadSetArgument "OFPBAC_BAD_SET_ARGUMENT" { NX 0..=1, 1 525 } { OF 2..=5, 2 15 };
    BacBadSetMask "OFPBAC_BAD_SET_MASK" { ONF 3..=4, 4250 0 } { OF 5..=5, 2 16 };
    BacBadMeter "OFPBAC_BAD_METER" { OF 5..=5, 2 17 };
    NxbacMustBeZero "NXBAC_MUST_BE_ZERO" { NX 0..=1, 2 256 } { NX 2..=5, 11 0 };
    NxbacBadConjunction "NXBAC_BAD_CONJUNCTION" { NX 0..=1, 2 526 } { NX 2..=5, 15 0 };
    NxbacBadHeaderType "NXBAC_BAD_HEADER_TYPE" { NX 3..=5, 39 0 };
    NxbacUnknownEdProp "NXBAC_UNKNOWN_ED_PROP" { NX 3..=5, 40 0 };
    NxbacBadEdProp "NXBAC_BAD_ED_PROP" { NX 3..=5, 41 0 };
    NxbacCtDatapathSupport "NXBAC_CT_DATAPATH_SUPPORT" { NX 0..=1, 1 265 } { NX 2..=5, 42 0 };
    BicUnknownInst "OFPBIC_UNKNOWN_INST" { OF 1..=5, 3 0 };
    BicUnsupInst "OFPBIC_UNSUP_INST" { NX 0..=0, 2 257 } { OF 1..=5, 3 1 };
    BicBadTableId "OFPBIC_BAD_TABLE_ID" { OF 1..=5, 3 2 };
    BicUnsupMetadata "OFPBIC_UNSUP_METADATA" { OF 1..=5, 3 3 };
    BicUnsupMetadataMask "OFPBIC_UNSUP_METADATA_MASK" { OF 1..=5, 3 4 };
    BicBadExperimenter "OFPBIC_BAD_EXPERIMENTER" { OF 1..=5, 3 5 };
    BicBadExpType "OFPBIC_BAD_EXP_TYPE" { OF 1..=1, 3 5 } { OF 2..=5, 3 6 };
    BicBadLen "OFPBIC_BAD_LEN" { OF 2..=5, 3 7 };
    BicEperm "OFPBIC_EPERM" { OF 2..=5, 3 8 };
    BicDupInst "OFPBIC_DUP_INST" { NX 1..=1, 3 256 } { ONF 2..=3, 2600 0 } { OF 4..=5, 3 9 };
    BmcBadType "OFPBMC_BAD_TYPE" { OF 1..=5, 4 0 };
    BmcBadLen "OFPBMC_BAD_LEN" { OF 1..=5, 4 1 };
    BmcBadTag "OFPBMC_BAD_TAG" { OF 1..=5, 4 2 };
    BmcBadDlAddrMask "OFPBMC_BAD_DL_ADDR_MASK" { OF 1..=5, 4 3 };
    BmcBadNwAddrMask "OFPBMC_BAD_NW_ADDR_MASK" { OF 1..=5, 4 4 };
    BmcBadWildcards "OFPBMC_BAD_WILDCARDS" { NX 0..=0, 1 262 } { OF 1..=5, 4 5 };
    BmcBadField "OFPBMC_BAD_FIELD" { NX 0..=0, 0 263 } { OF 1..=5, 4 6 };
    BmcBadValue "OFPBMC_BAD_VALUE" { NX 0..=0, 1 258 } { OF 1..=5, 4 7 };
    BmcBadMask "OFPBMC_BAD_MASK" { NX 0..=1, 1 259 } { OF 2..=5, 4 8 };
    BmcBadPrereq "OFPBMC_BAD_PREREQ" { NX 0..=1, 1 260 } { OF 2..=5, 4 9 };
    BmcDupField "OFPBMC_DUP_FIELD" { NX 0..=1, 1 261 } { OF 2..=5, 4 10 };
    BmcEperm "OFPBMC_EPERM" { OF 2..=5, 4 11 };
    NxbmcCtDatapathSupport "NXBMC_CT_DATAPATH_SUPPORT" { NX 0..=1, 1 264 } { NX 2..=5, 43 0 };
    FmfcUnknown "OFPFMFC_UNKNOWN" { OF 1..=5, 5 0 };
    FmfcTableFull "OFPFMFC_TABLE_FULL" { OF 0..=0, 3 0 } { OF 1..=5, 5 1 };
    FmfcBadTableId "OFPFMFC_BAD_TABLE_ID" { OF 1..=5, 5 2 };
    FmfcOverlap "OFPFMFC_OVERLAP" { OF 0..=0, 3 1 } { OF 1..=5, 5 3 };
    FmfcEperm "OFPFMFC_EPERM" { OF 0..=0, 3 2 } { OF 1..=5, 5 4 };
    FmfcBadTimeout "OFPFMFC_BAD_TIMEOUT" { OF 1..=5, 5 5 };
    FmfcBadEmergTimeout "OFPFMFC_BAD_EMERG_TIMEOUT" { OF 0..=0, 3 3 };
    FmfcBadCommand "OFPFMFC_BAD_COMMAND" { OF 0..=0, 3 4 } { OF 1..=5, 5 6 };
    FmfcBadFlags "OFPFMFC_BAD_FLAGS" { NX 0..=0, 3 258 } { NX 1..=1, 5 258 } { OF 2..=5, 5 7 };
    FmfcCantSync "OFPFMFC_CANT_SYNC" { OF 4..=5, 5 8 };
    FmfcBadPriority "OFPFMFC_BAD_PRIORITY" { ONF 3..=3, 2360 0 } { OF 4..=5, 5 9 };
    FmfcIsSync "OFPFMFC_IS_SYNC" { OF 4..=5, 5 10 };
    FmfcUnsupported "OFPFMFC_UNSUPPORTED" { OF 0..=0, 3 5 };
    NxfmfcHardware "NXFMFC_HARDWARE" { NX 0..=1, 5 256 } { NX 2..=5, 12 0 };
    NxfmfcBadTableId "NXFMFC_BAD_TABLE_ID" { NX 0..=1, 5 257 } { NX 2..=5, 13 0 };
    NxfmfcInvalidTlvField "NXFMFC_INVALID_TLV_FIELD" { NX 0..=1, 1 536 } { NX 2..=5, 37 0 };
    GmfcGroupExists "OFPGMFC_GROUP_EXISTS" { NX 0..=0, 6 0 } { OF 1..=5, 6 0 };
    GmfcInvalidGroup "OFPGMFC_INVALID_GROUP" { NX 0..=0, 6 1 } { OF 1..=5, 6 1 };
    GmfcWeightUnsupported "OFPGMFC_WEIGHT_UNSUPPORTED" { NX 0..=0, 6 2 } { OF 1..=5, 6 2 };
    GmfcOutOfGroups "OFPGMFC_OUT_OF_GROUPS" { NX 0..=0, 6 3 } { OF 1..=5, 6 3 };
    GmfcOutOfBuckets "OFPGMFC_OUT_OF_BUCKETS" { NX 0..=0, 6 4 } { OF 1..=5, 6 4 };
    GmfcChainingUnsupported "OFPGMFC_CHAINING_UNSUPPORTED" { NX 0..=0, 6 5 } { OF 1..=5, 6 5 };
    GmfcWatchUnsupported "OFPGMFC_WATCH_UNSUPPORTED" { NX 0..=0, 6 6 } { OF 1..=5, 6 6 };
    GmfcLoop "OFPGMFC_LOOP" { NX 0..=0, 6 7 } { OF 1..=5, 6 7 };
    GmfcUnknownGroup "OFPGMFC_UNKNOWN_GROUP" { NX 0..=0, 6 8 } { OF 1..=5, 6 8 };
    GmfcChainedGroup "OFPGMFC_CHAINED_GROUP" { NX 0..=0, 6 9 } { OF 2..=5, 6 9 };
    GmfcBadType "OFPGMFC_BAD_TYPE" { NX 0..=0, 6 10 } { OF 2..=5, 6 10 };
    GmfcBadCommand "OFPGMFC_BAD_COMMAND" { NX 0..=0, 6 11 } { OF 2..=5, 6 11 };
    GmfcBadBucket "OFPGMFC_BAD_BUCKET" { NX 0..=0, 6 12 } { OF 2..=5, 6 12 };
    GmfcBadWatch "OFPGMFC_BAD_WATCH" { NX 0..=0, 6 13 } { OF 2..=5, 6 13 };
    GmfcEperm "OFPGMFC_EPERM" { NX 0..=0, 6 14 } { OF 2..=5, 6 14 };
    GmfcUnknownBucket "OFPGMFC_UNKNOWN_BUCKET" { NX 0..=0, 6 15 } { OF 5..=5, 6 15 };
    GmfcBucketExists "OFPGMFC_BUCKET_EXISTS" { NX 0..=0, 6 16 } { OF 5..=5, 6 16 };
    PmfcBadPort "OFPPMFC_BAD_PORT" { OF 0..=0, 4 0 } { OF 1..=5, 7 0 };
    PmfcBadHwAddr "OFPPMFC_BAD_HW_ADDR" { OF 0..=0, 4 1 } { OF 1..=5, 7 1 };
    PmfcBadConfig "OFPPMFC_BAD_CONFIG" { OF 1..=5, 7 2 };
    PmfcBadAdvertise "OFPPMFC_BAD_ADVERTISE" { OF 1..=5, 7 3 };
    PmfcEperm "OFPPMFC_EPERM" { OF 2..=5, 7 4 };
    TmfcBadTable "OFPTMFC_BAD_TABLE" { OF 1..=5, 8 0 };
    TmfcBadConfig "OFPTMFC_BAD_CONFIG" { OF 1..=5, 8 1 };
    TmfcEperm "OFPTMFC_EPERM" { OF 2..=5, 8 2 };
    QofcBadPort "OFPQOFC_BAD_PORT" { OF 0..=0, 5 0 } { OF 1..=5, 9 0 };
    QofcBadQueue "OFPQOFC_BAD_QUEUE" { OF 0..=0, 5 1 } { OF 1..=5, 9 1 };
    QofcEperm "OFPQOFC_EPERM" { OF 0..=0, 5 2 } { OF 1..=5, 9 2 };
    NxqofcQueueError "NXQOFC_QUEUE_ERROR" { NX 4..=5, 23 0 };
    ScfcBadFlags "OFPSCFC_BAD_FLAGS" { OF 1..=5, 10 0 };
    ScfcBadLen "OFPSCFC_BAD_LEN" { OF 1..=5, 10 1 };
    ScfcEperm "OFPSCFC_EPERM" { OF 2..=5, 10 2 };
    RrfcStale "OFPRRFC_STALE" { OF 2..=5, 11 0 };
    RrfcUnsup "OFPRRFC_UNSUP" { OF 2..=5, 11 1 };
    RrfcBadRole "OFPRRFC_BAD_ROLE" { NX 0..=1, 1 513 } { OF 2..=5, 11 2 };
    RrfcIdUnsup "OFPRRFC_ID_UNSUP" { OF 5..=5, 11 3 };
    RrfcIdInUse "OFPRRFC_ID_IN_USE" { OF 5..=5, 11 4 };
    MmfcUnknown "OFPMMFC_UNKNOWN" { OF 3..=5, 12 0 };
    MmfcMeterExists "OFPMMFC_METER_EXISTS" { OF 3..=5, 12 1 };
    MmfcInvalidMeter "OFPMMFC_INVALID_METER" { OF 3..=5, 12 2 };
    MmfcUnknownMeter "OFPMMFC_UNKNOWN_METER" { OF 3..=5, 12 3 };
    MmfcBadCommand "OFPMMFC_BAD_COMMAND" { OF 3..=5, 12 4 };
    MmfcBadFlags "OFPMMFC_BAD_FLAGS" { OF 3..=5, 12 5 };
    MmfcBadRate "OFPMMFC_BAD_RATE" { OF 3..=5, 12 6 };
    MmfcBadBurst "OFPMMFC_BAD_BURST" { OF 3..=5, 12 7 };
    MmfcBadBand "OFPMMFC_BAD_BAND" { OF 3..=5, 12 8 };
    MmfcBadBandValue "OFPMMFC_BAD_BAND_VALUE" { OF 3..=5, 12 9 };
    MmfcOutOfMeters "OFPMMFC_OUT_OF_METERS" { OF 3..=5, 12 10 };
    MmfcOutOfBands "OFPMMFC_OUT_OF_BANDS" { OF 3..=5, 12 11 };
    TffcBadTable "OFPTFFC_BAD_TABLE" { OF 3..=5, 13 0 };
    TffcBadMetadata "OFPTFFC_BAD_METADATA" { OF 3..=5, 13 1 };
    TffcEperm "OFPTFFC_EPERM" { OF 3..=5, 13 5 };
    TffcBadCapa "OFPTFFC_BAD_CAPA" { OF 5..=5, 13 6 };
    TffcBadMaxEnt "OFPTFFC_BAD_MAX_ENT" { OF 5..=5, 13 7 };
    TffcBadFeatures "OFPTFFC_BAD_FEATURES" { OF 5..=5, 13 8 };
    TffcBadCommand "OFPTFFC_BAD_COMMAND" { OF 5..=5, 13 9 };
    TffcTooMany "OFPTFFC_TOO_MANY" { OF 5..=5, 13 10 };
    NxtffcDupTable "NXTFFC_DUP_TABLE" { NX 3..=5, 44 0 };
    BpcBadType "OFPBPC_BAD_TYPE" { NX 0..=1, 13 2 } { NX 2..=2, 25 0 } { OF 3..=3, 13 2 } { OF 4..=5, 14 0 };
    BpcBadLen "OFPBPC_BAD_LEN" { NX 0..=1, 13 3 } { NX 2..=2, 26 0 } { OF 3..=3, 13 3 } { OF 4..=5, 14 1 };
    BpcBadValue "OFPBPC_BAD_VALUE" { NX 0..=1, 13 4 } { NX 2..=2, 27 0 } { OF 3..=3, 13 4 } { OF 4..=5, 14 2 };
    BpcTooMany "OFPBPC_TOO_MANY" { NX 0..=1, 14 3 } { NX 2..=2, 28 0 } { ONF 3..=3, 4443 0 } { OF 4..=5, 14 3 };
    BpcDupType "OFPBPC_DUP_TYPE" { NX 0..=1, 14 4 } { NX 2..=2, 29 0 } { ONF 3..=3, 4444 0 } { OF 4..=5, 14 4 };
    BpcBadExperimenter "OFPBPC_BAD_EXPERIMENTER" { NX 0..=1, 14 5 } { NX 2..=2, 30 0 } { ONF 3..=3, 4445 0 } { OF 4..=5, 14 5 };
    BpcBadExpType "OFPBPC_BAD_EXP_TYPE" { NX 0..=1, 14 6 } { NX 2..=2, 31 0 } { ONF 3..=3, 4446 0 } { OF 4..=5, 14 6 };
    BpcBadExpValue "OFPBPC_BAD_EXP_VALUE" { NX 0..=1, 14 7 } { NX 2..=2, 32 0 } { ONF 3..=3, 4447 0 } { OF 4..=5, 14 7 };
    BpcEperm "OFPBPC_EPERM" { NX 0..=1, 14 8 } { NX 2..=2, 33 0 } { ONF 3..=3, 4448 0 } { OF 4..=5, 14 8 };
    AcfcInvalid "OFPACFC_INVALID" { ONF 3..=3, 2370 0 } { OF 4..=5, 15 0 };
    AcfcUnsupported "OFPACFC_UNSUPPORTED" { ONF 3..=3, 2371 0 } { OF 4..=5, 15 1 };
    AcfcEperm "OFPACFC_EPERM" { ONF 3..=3, 2372 0 } { OF 4..=5, 15 2 };
    BfcUnknown "OFPBFC_UNKNOWN" { ONF 3..=3, 2300 0 } { OF 4..=5, 17 0 };
    BfcEperm "OFPBFC_EPERM" { ONF 3..=3, 2301 0 } { OF 4..=5, 17 1 };
    BfcBadId "OFPBFC_BAD_ID" { ONF 3..=3, 2302 0 } { OF 4..=5, 17 2 };
    BfcBundleExist "OFPBFC_BUNDLE_EXIST" { ONF 3..=3, 2303 0 } { OF 4..=5, 17 3 };
    BfcBundleClosed "OFPBFC_BUNDLE_CLOSED" { ONF 3..=3, 2304 0 } { OF 4..=5, 17 4 };
    BfcOutOfBundles "OFPBFC_OUT_OF_BUNDLES" { ONF 3..=3, 2305 0 } { OF 4..=5, 17 5 };
    BfcBadType "OFPBFC_BAD_TYPE" { ONF 3..=3, 2306 0 } { OF 4..=5, 17 6 };
    BfcBadFlags "OFPBFC_BAD_FLAGS" { ONF 3..=3, 2307 0 } { OF 4..=5, 17 7 };
    BfcMsgBadLen "OFPBFC_MSG_BAD_LEN" { ONF 3..=3, 2308 0 } { OF 4..=5, 17 8 };
    BfcMsgBadXid "OFPBFC_MSG_BAD_XID" { ONF 3..=3, 2309 0 } { OF 4..=5, 17 9 };
    BfcMsgUnsup "OFPBFC_MSG_UNSUP" { ONF 3..=3, 2310 0 } { OF 4..=5, 17 10 };
    BfcMsgConflict "OFPBFC_MSG_CONFLICT" { ONF 3..=3, 2311 0 } { OF 4..=5, 17 11 };
    BfcMsgTooMany "OFPBFC_MSG_TOO_MANY" { ONF 3..=3, 2312 0 } { OF 4..=5, 17 12 };
    BfcMsgFailed "OFPBFC_MSG_FAILED" { ONF 3..=3, 2313 0 } { OF 4..=5, 17 13 };
    BfcTimeout "OFPBFC_TIMEOUT" { ONF 3..=3, 2314 0 } { OF 4..=5, 17 14 };
    BfcBundleInProgress "OFPBFC_BUNDLE_IN_PROGRESS" { ONF 3..=3, 2315 0 } { OF 4..=5, 17 15 };
    BfcSchedNotSupported "OFPBFC_SCHED_NOT_SUPPORTED" { OF 5..=5, 17 16 };
    BfcSchedFuture "OFPBFC_SCHED_FUTURE" { OF 5..=5, 17 17 };
    BfcSchedPast "OFPBFC_SCHED_PAST" { OF 5..=5, 17 18 };
    BfcBadVersion "OFPBFC_BAD_VERSION" { NX 4..=5, 22 0 };
    MofcUnknown "OFPMOFC_UNKNOWN" { OF 4..=5, 16 0 };
    MofcMonitorExists "OFPMOFC_MONITOR_EXISTS" { NX 0..=1, 1 517 } { NX 2..=3, 6 0 } { OF 4..=5, 16 1 };
    MofcInvalidMonitor "OFPMOFC_INVALID_MONITOR" { OF 4..=5, 16 2 };
    MofcUnknownMonitor "OFPMOFC_UNKNOWN_MONITOR" { NX 0..=1, 1 519 } { NX 2..=3, 8 0 } { OF 4..=5, 16 3 };
    MofcBadCommand "OFPMOFC_BAD_COMMAND" { OF 4..=5, 16 4 };
    MofcBadFlags "OFPMOFC_BAD_FLAGS" { NX 0..=1, 1 518 } { NX 2..=3, 7 0 } { OF 4..=5, 16 5 };
    MofcBadTableId "OFPMOFC_BAD_TABLE_ID" { OF 4..=5, 16 6 };
    MofcBadOut "OFPMOFC_BAD_OUT" { OF 4..=5, 16 7 };
    NxttmfcBadCommand "NXTTMFC_BAD_COMMAND" { NX 0..=1, 1 527 } { NX 2..=5, 16 0 };
    NxttmfcBadOptLen "NXTTMFC_BAD_OPT_LEN" { NX 0..=1, 1 528 } { NX 2..=5, 17 0 };
    NxttmfcBadFieldIdx "NXTTMFC_BAD_FIELD_IDX" { NX 0..=1, 1 529 } { NX 2..=5, 18 0 };
    NxttmfcTableFull "NXTTMFC_TABLE_FULL" { NX 0..=1, 1 530 } { NX 2..=5, 19 0 };
    NxttmfcAlreadyMapped "NXTTMFC_ALREADY_MAPPED" { NX 0..=1, 1 531 } { NX 2..=5, 20 0 };
    NxttmfcDupEntry "NXTTMFC_DUP_ENTRY" { NX 0..=1, 1 532 } { NX 2..=5, 21 0 };
    NxttmfcInvalidTlvDel "NXTTMFC_INVALID_TLV_DEL" { NX 0..=1, 1 537 } { NX 2..=5, 38 0 };
    NxrNotSupported "NXR_NOT_SUPPORTED" { NX 0..=1, 1 533 } { NX 2..=5, 34 0 };
    NxrStale "NXR_STALE" { NX 0..=1, 1 534 } { NX 2..=5, 35 0 };
    NxstNotConfigured "NXST_NOT_CONFIGURED" { NX 0..=1, 1 535 } { NX 2..=5, 36 0 };
}
