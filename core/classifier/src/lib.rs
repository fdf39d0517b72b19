//! Look-up of OpenFlow rules, with the mask of the examined bits ([`of`]), and look-up of megaflows ([`megaflow`]).

pub mod megaflow;
pub mod of;
