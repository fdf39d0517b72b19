//! The `options` column of an AF_XDP port.

use settings::options::{XDP_MODE, XDP_N_RXQ, XDP_N_RXQ_DESC};
use std::collections::BTreeMap;

/// `options:xdp-mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// The fastest mode that works.
    #[default]
    BestEffort,
    /// In the driver, with zero copy: the device writes packets directly to the socket's memory.
    NativeZerocopy,
    /// In the driver, with copies by the kernel.
    Native,
    /// In the kernel's network stack.
    Generic,
}

impl XdpMode {
    const ALL: [XdpMode; 4] =
        [XdpMode::BestEffort, XdpMode::NativeZerocopy, XdpMode::Native, XdpMode::Generic];

    /// Its name in the database.
    pub fn name(self) -> &'static str {
        match self {
            XdpMode::BestEffort => "best-effort",
            XdpMode::NativeZerocopy => "native-with-zerocopy",
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        }
    }

    /// The modes that are tried in this order, fastest first.
    pub fn candidates(self) -> &'static [XdpMode] {
        match self {
            XdpMode::BestEffort => &XdpMode::ALL[1..],
            XdpMode::NativeZerocopy => &[XdpMode::NativeZerocopy],
            XdpMode::Native => &[XdpMode::Native],
            XdpMode::Generic => &[XdpMode::Generic],
        }
    }
}

/// The configuration of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of queues.
    pub n_rxq: u32,
    /// The requested mode.
    pub mode: XdpMode,
    /// Number of receive buffers of each queue: those of its own ring, or the high watermark in a pool.
    pub depth: u32,
}

impl Options {
    /// Reads the column. A value that is not a number counts as absent, as for other options.
    pub fn parse(options: &BTreeMap<String, String>) -> Result<Options, String> {
        let (n_rxq, most) = (XDP_N_RXQ.number(options).max(1), XDP_N_RXQ.max());
        if n_rxq > most {
            return Err(format!("Too big 'n_rxq' ({n_rxq} > {most})."));
        }
        let name = XDP_MODE.word(options);
        let mode = XdpMode::ALL
            .into_iter()
            .find(|mode| mode.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| format!("Incorrect xdp-mode ({name})."))?;
        let depth = XDP_N_RXQ_DESC.number(options) as u32;
        Ok(Options { n_rxq: n_rxq as u32, mode, depth })
    }

    /// The options as `dpctl/show` prints them.
    pub fn shown(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("n_rxq".to_owned(), self.n_rxq.to_string()),
            ("xdp-mode".to_owned(), self.mode.name().to_owned()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Options, String> {
        Options::parse(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn defaults_limits_and_names() {
        assert_eq!(parse(&[]), Ok(Options { n_rxq: 1, mode: XdpMode::BestEffort, depth: 2048 }));
        assert_eq!(parse(&[("n_rxq_desc", "1")]).map(|o| o.depth), Ok(64));
        assert_eq!(parse(&[("n_rxq", "0"), ("xdp-mode", "Generic")]).map(|o| o.shown()), {
            let shown = [("n_rxq", "1"), ("xdp-mode", "generic")];
            Ok(shown.map(|(k, v)| (k.to_owned(), v.to_owned())).into())
        });
        assert_eq!(parse(&[("n_rxq", "x")]).map(|o| o.n_rxq), Ok(1));
        assert_eq!(parse(&[("n_rxq", "17")]), Err("Too big 'n_rxq' (17 > 16).".to_owned()));
        assert_eq!(parse(&[("xdp-mode", "fast")]), Err("Incorrect xdp-mode (fast).".to_owned()));
        assert_eq!(XdpMode::BestEffort.candidates().len(), 3);
    }
}
