//! Host names and addresses as text: read strictly, and compared with the hosts a user allows.
//!
//! What two programs could read as two different hosts is no host here: there is one spelling of
//! an address, and a name that ends in a number is none. Looks nothing up. Called by `config` to
//! check settings and by the sandbox's proxy.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::fmt;

/// The longest name there is.
const NAME_BYTES_MAX: usize = 253;
/// The longest part of one.
const LABEL_BYTES_MAX: usize = 63;
/// The ports of a host that is allowed without one.
const PORTS: [u16; 2] = [80, 443];

/// A host as a request names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    /// A name, in lower case and without a dot at its end.
    Name(String),
    /// An address.
    Address(IpAddr),
}

/// Hosts that are allowed: `example.org`, `*.example.org`, `10.0.0.5`, `[::1]` or `*`, each with
/// `:PORT` or else on ports 80 and 443.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostPattern {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    Any,
    Below(String),
    One(Host),
}

impl Host {
    /// Reads a host; `None` for what is none, or could be read as another.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(inner) = text.strip_prefix('[') {
            let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(address.to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(IpAddr::V4(address)));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_label = |label: &str| {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(is_letter)
        };
        // Resolvers read `127.1`, `0x7f.1` and `2130706433` as addresses.
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
            || last
                .strip_prefix("0x")
                .is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let is_name = name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label) && !is_number;
        is_name.then_some(Self::Name(name))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl HostPattern {
    /// Reads a pattern; the error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some((host, port)) = split_port(text).or(text.contains('/').then_some((text, None)))
        else {
            return Err(format!("`{text}` has no port from 1 to 65535 after its colon"));
        };
        let hosts = if host == "*" {
            Some(Hosts::Any)
        } else if let Some(name) = host.strip_prefix("*.") {
            match Host::parse(name) {
                Some(Host::Name(name)) => Some(Hosts::Below(format!(".{name}"))),
                Some(Host::Address(_)) | None => None,
            }
        } else {
            Host::parse(host).map(Hosts::One)
        };
        hosts.map(|hosts| Self { hosts, port }).ok_or_else(|| {
            format!("`{text}` is no host: write example.org, *.example.org or an address, and :PORT for another port than 80 and 443")
        })
    }

    /// Returns whether it allows this host on this port.
    pub(crate) fn covers(&self, host: &Host, port: u16) -> bool {
        let covers_host = match (&self.hosts, host) {
            (Hosts::Any, _) => true,
            (Hosts::Below(end), Host::Name(name)) => name.ends_with(end.as_str()),
            (Hosts::Below(_), Host::Address(_)) => false,
            (Hosts::One(allowed), host) => allowed == host,
        };
        covers_host && self.covers_port(port)
    }

    /// Returns whether it names this very address.
    pub(crate) fn names(&self, address: IpAddr, port: u16) -> bool {
        self.hosts == Hosts::One(Host::Address(address.to_canonical())) && self.covers_port(port)
    }

    fn covers_port(&self, port: u16) -> bool {
        self.port.map_or_else(|| PORTS.contains(&port), |allowed| allowed == port)
    }
}

/// Splits `host:port`; the port is `None` where there is none. `None` for a bad port.
pub(crate) fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let after_address = text.rfind(']').map_or(0, |at| at + 1);
    let Some(colon) = text.get(after_address..)?.find(':') else { return Some((text, None)) };
    let (host, port) = text.split_at(after_address + colon);
    let port = port.strip_prefix(':')?;
    let is_number = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    let port: u16 = port.parse().ok().filter(|port| is_number && *port > 0)?;
    Some((host, Some(port)))
}

/// Returns whether an address is on the public internet: no loopback, no private network, no
/// other machine's neighbour, nothing that is reserved.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    const CLOSED: [(Ipv4Addr, u32); 15] = [
        (Ipv4Addr::new(0, 0, 0, 0), 8),
        (Ipv4Addr::new(10, 0, 0, 0), 8),
        (Ipv4Addr::new(100, 64, 0, 0), 10),
        (Ipv4Addr::new(127, 0, 0, 0), 8),
        (Ipv4Addr::new(169, 254, 0, 0), 16),
        (Ipv4Addr::new(172, 16, 0, 0), 12),
        (Ipv4Addr::new(192, 0, 0, 0), 24),
        (Ipv4Addr::new(192, 0, 2, 0), 24),
        (Ipv4Addr::new(192, 88, 99, 0), 24),
        (Ipv4Addr::new(192, 168, 0, 0), 16),
        (Ipv4Addr::new(198, 18, 0, 0), 15),
        (Ipv4Addr::new(198, 51, 100, 0), 24),
        (Ipv4Addr::new(203, 0, 113, 0), 24),
        (Ipv4Addr::new(224, 0, 0, 0), 4),
        (Ipv4Addr::new(240, 0, 0, 0), 4),
    ];
    let is_in = |(network, bits): &(Ipv4Addr, u32)| {
        (address.to_bits() ^ network.to_bits()).leading_zeros() >= *bits
    };
    !CLOSED.iter().any(is_in)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    if [a, b, c, d, e, f] == [0x64, 0xff9b, 0, 0, 0, 0] {
        // The same host, as networks without IPv4 reach it.
        let [high, low] = [g.to_be_bytes(), h.to_be_bytes()];
        return is_public_v4(Ipv4Addr::new(high[0], high[1], low[0], low[1]));
    }
    let is_global = a & 0xe000 == 0x2000;
    let is_assignment = a == 0x2001 && b < 0x200;
    let is_example = (a == 0x2001 && b == 0xdb8) || (a == 0x3fff && b < 0x1000);
    let is_6to4 = a == 0x2002;
    is_global && !is_assignment && !is_example && !is_6to4
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_host_has_one_spelling() {
        let shown = |text: &str| Host::parse(text).map(|host| host.to_string());
        let table = [
            ("Example.ORG", Some("example.org")),
            ("example.org.", Some("example.org")),
            ("a_b-c.d", Some("a_b-c.d")),
            ("localhost", Some("localhost")),
            ("10.0.0.1", Some("10.0.0.1")),
            ("[::1]", Some("[::1]")),
            ("[::FFFF:10.0.0.1]", Some("10.0.0.1")),
            ("", None),
            (".", None),
            ("a..b", None),
            ("exämple.org", None),
            ("a b", None),
            ("a/b", None),
            ("a@b", None),
            ("a%00b", None),
            ("::1", None),
            ("[::1%eth0]", None),
            ("[10.0.0.1]", None),
            ("127.1", None),
            ("127.0.0.01", None),
            ("0x7f.0.0.1", None),
            ("0x7f000001", None),
            ("2130706433", None),
            ("1.2.3.4.5", None),
            ("a.0x", None),
        ];
        for (text, expected) in table {
            assert_eq!(shown(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_pattern_covers_what_it_says_and_no_more() {
        let covers = |pattern: &str, host: &str, port| {
            HostPattern::parse(pattern).unwrap().covers(&Host::parse(host).unwrap(), port)
        };
        assert!(covers("crates.io", "crates.io", 443) && covers("crates.io", "CRATES.IO.", 80));
        assert!(!covers("crates.io", "static.crates.io", 443));
        assert!(!covers("crates.io", "notcrates.io", 443));
        assert!(!covers("crates.io", "crates.io", 22));
        assert!(covers("*.npmjs.org:443", "registry.npmjs.org", 443));
        assert!(!covers("*.npmjs.org:443", "registry.npmjs.org", 80));
        assert!(!covers("*.npmjs.org", "npmjs.org", 443));
        assert!(!covers("*.npmjs.org", "npmjs.org.evil.test", 443));
        assert!(!covers("*.npmjs.org", "evilnpmjs.org", 443));
        assert!(covers("[::1]:8080", "[::1]", 8080) && covers("10.0.0.5", "[::ffff:10.0.0.5]", 80));
        assert!(covers("*", "anything.test", 443) && !covers("*", "anything.test", 25));
    }

    #[test]
    fn a_bad_pattern_is_said() {
        for text in
            ["", "a:", "a:0", "a:70000", "a:+1", "a:1:2", "http://a", "a.*", "*.1.2", "*a.b", "::1"]
        {
            assert!(HostPattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_public_addresses_are_public() {
        let public =
            ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::101:101"];
        let closed = [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.31.255.255",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "198.19.0.1",
            "::",
            "::1",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "::127.0.0.1",
            "fec0::1",
        ];
        let is_public_text = |text: &str| is_public(text.parse().unwrap());
        assert!(public.iter().all(|text| is_public_text(text)));
        let open: Vec<_> = closed.iter().filter(|text| is_public_text(text)).collect();
        assert!(open.is_empty(), "{open:?}");
    }

    proptest! {
        #[test]
        fn a_host_reads_back_as_itself(text in "\\PC{0,40}|[a-z0-9.:\\[\\]*-]{0,20}") {
            if let Some(host) = Host::parse(&text) {
                prop_assert_eq!(Host::parse(&host.to_string()), Some(host));
            }
            let _ = HostPattern::parse(&text);
            let _ = split_port(&text);
        }
    }
}
