//! The mock server keeps its word. Apart from it, because the bench includes it by path.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::server::{End, Reply, Server};

fn ask(stream: &mut TcpStream, path: &str, body: &str) {
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
}

fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let (mut all, mut byte) = (String::new(), [0]);
    while !all.ends_with(end) && stream.read(&mut byte).unwrap() == 1 {
        all.push(char::from(byte[0]));
    }
    all
}

#[test]
fn many_requests_on_one_connection_get_their_replies_in_order() {
    let cut = Reply::sse("data: half").ending(End::Cut);
    let server = Server::playing(vec![Reply::sse("data: 1\n\n"), Reply::status(503, "{}"), cut]);
    let address = server.base_url().replace("http://", "").replace("/v1", "");
    let mut stream = TcpStream::connect(address).unwrap();
    ask(&mut stream, "/v1/elsewhere", "");
    assert!(read_until(&mut stream, "0\r\n\r\n").starts_with("HTTP/1.1 404"));
    ask(&mut stream, "/v1/responses", "{\"a\":1}");
    assert!(read_until(&mut stream, "0\r\n\r\n").contains("9\r\ndata: 1\n\n\r\n"));
    ask(&mut stream, "/v1/responses", "two");
    assert!(read_until(&mut stream, "0\r\n\r\n").starts_with("HTTP/1.1 503"));
    ask(&mut stream, "/v1/responses", "three");
    let last = read_until(&mut stream, "0\r\n\r\n");
    assert!(last.ends_with("data: half\r\n"), "cut in the middle: {last}");
    let requests = server.requests();
    assert_eq!(requests[0].json(), serde_json::json!({"a": 1}));
    assert!(requests.windows(2).all(|pair| pair[0].arrived < pair[1].arrived));
    assert_eq!((requests.len(), requests[2].connection, server.connections()), (3, 0, 1));
}
