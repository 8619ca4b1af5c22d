//! Reads the head of a proxy request. Pure and strict: what two programs could read in two ways
//! is refused.
//!
//! A plain request is written anew, with the host that was checked and without what is meant
//! for the proxy. Knows no socket and no policy. Called by `proxy/mod.rs`.

use crate::text::hosts::{Host, split_port};

/// A request that can be carried out once its host is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// Where it goes.
    pub(crate) host: Host,
    /// On which port.
    pub(crate) port: u16,
    /// What is done there.
    pub(crate) action: Action,
}

/// What a request does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// `CONNECT`: bytes go both ways as they are.
    Tunnel,
    /// One plain HTTP request.
    Forward {
        /// Its head, written anew.
        head: Vec<u8>,
        /// How many bytes of a body follow it.
        body_bytes: u64,
    },
}

/// Why a request is not carried out, as HTTP says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// The status code.
    pub(crate) status: u16,
    /// One line for whoever reads the answer.
    pub(crate) message: String,
}

/// Headers between a client and its proxy, in lower case. `host` is written anew.
const NOT_FORWARDED: [&str; 9] = [
    "host",
    "connection",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "proxy-authenticate",
];

/// Returns where a head ends, the empty line included.
pub(crate) fn find_head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// Reads a head, from its first byte up to and with its empty line.
pub(crate) fn parse_head(bytes: &[u8]) -> Result<Request, Rejection> {
    let text = std::str::from_utf8(bytes).map_err(|_| bad("the request is not plain text"))?;
    let text = text.strip_suffix("\r\n\r\n").ok_or_else(|| bad("the request has no end"))?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let headers: Vec<(&str, &str)> = lines.map(parse_header).collect::<Result<_, _>>()?;
    if first.bytes().any(|byte| !(0x20..0x7f).contains(&byte)) {
        return Err(bad("the request line holds an odd character"));
    }
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad("the request line is not METHOD TARGET VERSION"));
    };
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") || !is_token(method) {
        return Err(bad("this proxy speaks HTTP/1.1"));
    }
    if method == "CONNECT" {
        let (host, port) = parse_authority(target)?;
        let port = port.ok_or_else(|| bad("CONNECT needs HOST:PORT"))?;
        return Ok(Request { host, port, action: Action::Tunnel });
    }
    parse_forward(method, target, &headers)
}

fn parse_forward(
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
) -> Result<Request, Rejection> {
    let is_http = target.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let Some(rest) = target.get(7..).filter(|_| is_http) else {
        return Err(bad("this is a proxy: ask for http://HOST/PATH, or CONNECT HOST:PORT"));
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (host, port) = parse_authority(authority)?;
    if path.contains('#') {
        return Err(bad("a request names no fragment"));
    }
    let body_bytes = find_body_length(headers)?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let written_port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let mut head = format!("{method} {slash}{path} HTTP/1.1\r\nHost: {host}{written_port}\r\n");
    // What `Connection` names is meant for the proxy as well.
    let named: Vec<String> = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("connection"))
        .flat_map(|(_, value)| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .filter(|name| name != "content-length")
        .collect();
    for (name, value) in headers {
        let lower = name.to_ascii_lowercase();
        if !NOT_FORWARDED.contains(&lower.as_str()) && !named.contains(&lower) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head.push_str("Connection: close\r\n\r\n");
    let action = Action::Forward { head: head.into_bytes(), body_bytes };
    Ok(Request { host, port: port.unwrap_or(80), action })
}

fn parse_header(line: &str) -> Result<(&str, &str), Rejection> {
    let odd = || bad("a header is not NAME: VALUE");
    let (name, value) = line.split_once(':').ok_or_else(odd)?;
    let value = value.trim_matches([' ', '\t']);
    if !is_token(name) || value.chars().any(|letter| letter.is_control() && letter != '\t') {
        return Err(odd());
    }
    Ok((name, value))
}

/// Returns the length of the body. What could be framed in two ways is refused.
fn find_body_length(headers: &[(&str, &str)]) -> Result<u64, Rejection> {
    let is = |wanted: &'static str| {
        headers.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted))
    };
    if is("transfer-encoding").next().is_some() {
        let message = "send a Content-Length; this proxy takes no Transfer-Encoding".to_owned();
        return Err(Rejection { status: 411, message });
    }
    let mut lengths = is("content-length");
    let Some((_, length)) = lengths.next() else { return Ok(0) };
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    match length.parse() {
        Ok(length) if is_number && lengths.next().is_none() => Ok(length),
        _ => Err(bad("the Content-Length is not one number")),
    }
}

fn parse_authority(text: &str) -> Result<(Host, Option<u16>), Rejection> {
    let parts = split_port(text);
    let host = parts.and_then(|(host, port)| Some((Host::parse(host)?, port)));
    host.ok_or_else(|| bad("the host of the request is none"))
}

fn is_token(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_letter)
}

fn bad(message: &str) -> Rejection {
    Rejection { status: 400, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> String {
        match parse_head(text.as_bytes()) {
            Ok(Request { host, port, action: Action::Tunnel }) => format!("tunnel {host} {port}"),
            Ok(Request { host, port, action: Action::Forward { head, body_bytes } }) => {
                let head = String::from_utf8(head).unwrap().replace("\r\n", "|");
                format!("forward {host} {port} {body_bytes} {head}")
            }
            Err(rejection) => rejection.status.to_string(),
        }
    }

    #[test]
    fn requests_are_read_and_written_anew() {
        let table = [
            ("CONNECT a.test:443 HTTP/1.1\r\nHost: b.test\r\n\r\n", "tunnel a.test 443"),
            ("CONNECT [::1]:8443 HTTP/1.0\r\n\r\n", "tunnel [::1] 8443"),
            (
                "GET http://A.test/x?y HTTP/1.1\r\nHost: evil.test\r\nAccept: */*\r\nProxy-Connection: x\r\nConnection: X-Own, keep-alive\r\nX-Own: 1\r\n\r\n",
                "forward a.test 80 0 GET /x?y HTTP/1.1|Host: a.test|Accept: */*|Connection: close||",
            ),
            (
                "POST HTTP://a.test:8080?q HTTP/1.1\r\ncontent-length: 5\r\n\r\n",
                "forward a.test 8080 5 POST /?q HTTP/1.1|Host: a.test:8080|content-length: 5|Connection: close||",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let heads = [
            ("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "400"),
            ("GET https://a.test/ HTTP/1.1\r\n\r\n", "400"),
            ("GET http://user@a.test/ HTTP/1.1\r\n\r\n", "400"),
            ("GET http://a.test\\@b.test/ HTTP/1.1\r\n\r\n", "400"),
            ("GET http://a.test/#x HTTP/1.1\r\n\r\n", "400"),
            ("GET  http://a.test/ HTTP/1.1\r\n\r\n", "400"),
            ("GET http://a.test/ HTTP/2\r\n\r\n", "400"),
            ("CONNECT a.test HTTP/1.1\r\n\r\n", "400"),
            ("CONNECT a.test:0 HTTP/1.1\r\n\r\n", "400"),
            ("CONNECT 0x7f.1:443 HTTP/1.1\r\n\r\n", "400"),
            ("CONNECT a.test:443 x HTTP/1.1\r\n\r\n", "400"),
            ("CONNECT a.test:443\tHTTP/1.1\r\n\r\n", "400"),
            ("GET http://a.test/ HTTP/1.1\r\nA: b\nHost: c\r\n\r\n", "400"),
            ("GET http://a.test/ HTTP/1.1\r\nA: b\rC: d\r\n\r\n", "400"),
            ("GET http://a.test/ HTTP/1.1\r\n A: folded\r\n\r\n", "400"),
            ("GET http://a.test/ HTTP/1.1\r\nA : b\r\n\r\n", "400"),
            ("GET http://a.test/ HTTP/1.1\r\nA: \0\r\n\r\n", "400"),
            (
                "POST http://a.test/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
                "400",
            ),
            ("POST http://a.test/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n", "400"),
            ("POST http://a.test/ HTTP/1.1\r\nContent-Length: 1, 2\r\n\r\n", "400"),
            (
                "POST http://a.test/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                "411",
            ),
            ("POST http://a.test/ HTTP/1.1\r\ntransfer-encoding: x\r\n\r\n", "411"),
            ("\r\n\r\n", "400"),
            ("", "400"),
        ];
        for (text, expected) in heads {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_forwarded_head_is_one_request(head in "(GET|POST) http://[a-z.]{1,9}(:[0-9]{1,3})?(/[ -~]{0,9})? HTTP/1.1\r\n([!-~]{1,9}: ?[ -~\r\n\t]{0,12}\r\n){0,4}\r\n") {
            if let Ok(Request { action: Action::Forward { head, .. }, .. }) = parse_head(head.as_bytes()) {
                prop_assert_eq!(find_head_end(&head), Some(head.len()));
                let text = String::from_utf8(head).unwrap();
                prop_assert_eq!(text.to_ascii_lowercase().matches("\r\nhost:").count(), 1);
            }
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_head(&bytes);
            let _ = find_head_end(&bytes);
        }
    }
}
