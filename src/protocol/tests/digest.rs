//! The digest of a request: covers whatever a higher price may depend on, and nothing else.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use proptest::prelude::*;

use super::{cases, keys, seals};
use crate::protocol::{DigestedHeaders, ProofMembers, RequestDigest, digest_request};

fn digest_of(method: &str, uri: &str, body: &[u8]) -> RequestDigest {
    with_headers(method, uri, &[], &[], body)
}

/// The digest of a request with these headers, on a route that binds the names in `bound`.
fn with_headers(method: &str, uri: &str, sent: &[(&str, &str)], bound: &[&str], body: &[u8]) -> RequestDigest {
    let name = |name: &str| name.parse::<HeaderName>().unwrap();
    let mut all = HeaderMap::new();
    for (key, value) in sent {
        all.append(name(key), HeaderValue::from_str(value).unwrap());
    }
    let bound: Vec<HeaderName> = bound.iter().map(|key| name(key)).collect();
    digest_request(
        seals(&keys(1)).current().digest_key(),
        &method.parse::<Method>().unwrap(),
        &uri.parse::<Uri>().unwrap(),
        DigestedHeaders { all: &all, bound: &bound },
        body,
        ProofMembers::Payer,
    )
}

/// The digest of a POST of this body with these headers, on a route that binds these names.
fn bound(sent: &[(&str, &str)], names: &[&str], body: &str) -> RequestDigest {
    with_headers("POST", "/ask", sent, names, body.as_bytes())
}

fn body(body: &str) -> RequestDigest {
    digest_of("POST", "/ask?lang=en", body.as_bytes())
}

#[test]
fn what_means_the_same_is_the_same() {
    let one = body(r#"{"query":"who?","top":[1,{"a":"x y"}],"deep":{"b":1}}"#);
    for other in [
        r#" { "query" : "who?" , "top" : [ 1 , { "a" : "x y" } ] , "deep" : { "b" : 1 } } "#,
        "{\n\t\"query\":\"who?\",\r\n\t\"top\":[1,{\"a\":\"x y\"}],\"deep\":{\"b\":1}}\n",
        r#"{"top":[1,{"a":"x y"}],"deep":{"b":1},"query":"who?"}"#,
        r#"{"qu\u0065ry":"who?","top":[1,{"a":"x y"}],"deep":{"b":1}}"#,
        r#"{"intentId":"abc","query":"who?","txHash":"0x12","top":[1,{"a":"x y"}],"deep":{"b":1}}"#,
        r#"{"query":"who?","top":[1,{"a":"x y"}],"deep":{"b":1},"\u0069ntentId":["any",{"thing":1}],"txHash":null}"#,
        r#"{"paymentSecret":"AAAAAAAAAAAAAAAA","query":"who?","top":[1,{"a":"x y"}],"deep":{"b":1},"paymentSignature":"0x"}"#,
    ] {
        assert_eq!(body(other), one, "{other}");
    }
}

#[test]
fn what_means_something_else_differs() {
    let bodies = [
        r#"{"query":"who?"}"#,
        r#"{"query":"who? "}"#,
        r#"{"query":" who?"}"#,
        r#"{"query":"w ho?"}"#,
        r#"{"query":"Who?"}"#,
        r#"{"Query":"who?"}"#,
        r#"{"query":"who?","x":null}"#,
        r#"{"query":"who?","x":false}"#,
        r#"{"query":"who?","x":""}"#,
        r#"{"query":"who?","x":" "}"#,
        r#"{"query":"who?","x":0}"#,
        r#"{"query":"who?","x":-0}"#,
        r#"{"query":"who?","x":0.0}"#,
        r#"{"query":"who?","x":[]}"#,
        r#"{"query":"who?","x":{}}"#,
        r#"{"query":["who?"]}"#,
        r#"{"query":{"who?":1}}"#,
        // These would be equal as floats.
        r#"{"top":9007199254740992}"#,
        r#"{"top":9007199254740993}"#,
        r#"{"top":123456789012345678901234567890}"#,
        r#"{"top":123456789012345678901234567891}"#,
        r#"{"top":1e999}"#,
        r#"{"top":1e998}"#,
        r#"{"top":0.1}"#,
        r#"{"top":0.10000000000000000000000000000001}"#,
        // White space inside strings, beside quotes and backslashes that hide where a string ends.
        r#"{"a":"\\","b":" "}"#,
        r#"{"a":"\\ ","b":""}"#,
        r#"{"a":"\" ","b":""}"#,
        r#"{"a":"\"","b":" "}"#,
        r#"{"a":"\\\" "}"#,
        r#"{"a":"\\\""}"#,
        // Members with the same name: the first, the last, their order.
        r#"{"a":1,"a":2}"#,
        r#"{"a":2,"a":1}"#,
        r#"{"a":1}"#,
        r#"{"a":2}"#,
        r#"{"a":1,"a":1}"#,
        // The boundary between a name or value and the next one.
        r#"{"ab":1}"#,
        r#"{"a":"b1"}"#,
        r#"{"a":12}"#,
        r#"{"a":123}"#,
        r#"{"a":1,"2":3}"#,
        r#"{"a":1,"23":""}"#,
        // Only members of the outermost object belong to a proof.
        r#"{"a":{"intentId":"x"}}"#,
        r#"{"a":{"intentId":"y"}}"#,
        r#"{"a":{}}"#,
        r#"{"intentid":"x"}"#,
        // Not an object: digested as bytes, including white space.
        " ",
        "[]",
        "[ ]",
        "null",
        "{",
        "not JSON",
        r#"{"query":"who?"} x"#,
        // An object differs from the text of its members, and from any label of its kind.
        r#"{"bytes":"x"}"#,
        r#""x""#,
        "object",
        "nothing",
        "{}",
    ];
    for (i, a) in bodies.iter().enumerate() {
        for (j, b) in bodies.iter().enumerate() {
            assert_eq!(body(a) == body(b), i == j, "{a} against {b}");
        }
    }
}

#[test]
fn method_path_and_query_count() {
    let requests = [
        ("POST", "/ask"),
        ("PUT", "/ask"),
        ("GET", "/ask"),
        ("post", "/ask"),
        ("POST", "/ask/"),
        ("POST", "/Ask"),
        ("POST", "/ask?"),
        ("POST", "/ask?a"),
        ("POST", "/ask?a=1"),
        ("POST", "/ask?a=2"),
        ("POST", "/ask?a=1&b=2"),
        ("POST", "/ask?b=2&a=1"),
        ("POST", "/%61sk"),
        ("POST", "/"),
        ("POST", "/asking"),
    ];
    for (i, a) in requests.iter().enumerate() {
        for (j, b) in requests.iter().enumerate() {
            let same = digest_of(a.0, a.1, b"{}") == digest_of(b.0, b.1, b"{}");
            assert_eq!(same, i == j, "{a:?} against {b:?}");
        }
    }
}

/// Behind a proxy or over HTTP/2, the target of the same request may contain scheme and host.
#[test]
fn scheme_and_host_do_not_count() {
    let one = digest_of("POST", "/ask?a=1", b"{}");
    assert_eq!(digest_of("POST", "https://api.example/ask?a=1", b"{}"), one);
    assert_eq!(digest_of("POST", "http://127.0.0.1:4020/ask?a=1", b"{}"), one);
}

#[test]
fn a_digest_is_worth_nothing_under_another_key() {
    let of = |key| {
        let seals = seals(&keys(key));
        let headers = DigestedHeaders { all: &HeaderMap::new(), bound: &[] };
        digest_request(
            seals.current().digest_key(),
            &Method::POST,
            &Uri::from_static("/"),
            headers,
            b"{}",
            ProofMembers::Payer,
        )
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

/// An empty body equals an object without members: the content type arrives with the proof that is put into the body.
#[test]
fn nothing_is_an_empty_object() {
    let nothing = bound(&[], &[], "");
    let json = [("content-type", "application/json")];
    let parameter = [("content-type", "Application/JSON; charset=utf-8")];
    for sent in [&[] as &[_], &json, &parameter] {
        for body in ["", "{}", " { } ", r#"{"intentId":"x","txHash":"y"}"#] {
            assert_eq!(bound(sent, &[], body), nothing, "{sent:?} {body}");
        }
    }
    for other in ["text/csv", "application/xml", "application/problem+json", "text/json", ""] {
        assert_ne!(bound(&[("content-type", other)], &[], ""), nothing, "{other}");
    }
    assert_ne!(bound(&[json[0], json[0]], &[], ""), nothing);
    assert_ne!(bound(&[json[0], ("content-encoding", "gzip")], &[], ""), nothing);
}

/// A price may depend on both, even if the route does not bind them.
#[test]
fn content_type_and_encoding_count() {
    let sent: [&[(&str, &str)]; 8] = [
        &[],
        &[("content-type", "application/json")],
        &[("content-type", "application/json;v=2")],
        &[("content-type", "text/csv")],
        &[("content-type", "application/json"), ("content-type", "text/csv")],
        &[("content-encoding", "gzip")],
        &[("content-encoding", "br")],
        &[("content-type", "text/csv"), ("content-encoding", "gzip")],
    ];
    for body in [r#"{"a":1}"#, "a,b"] {
        for (i, a) in sent.iter().enumerate() {
            for (j, b) in sent.iter().enumerate() {
                assert_eq!(bound(a, &[], body) == bound(b, &[], body), i == j, "{a:?} against {b:?}");
            }
        }
    }
}

/// Unbound headers may change.
#[test]
fn other_headers_do_not_count() {
    let sent = [("x-request-id", "1"), ("authorization", "Bearer x"), ("x402-payment", "{}"), ("range", "bytes=0-1")];
    assert_eq!(bound(&sent, &[], "{}"), bound(&[], &[], "{}"));
    assert_ne!(bound(&sent, &["range"], "{}"), bound(&[], &["range"], "{}"));
}

/// Headers stay separate by name and number of values: moving a value from one to the next makes another request.
#[test]
fn bound_headers_keep_apart() {
    let both = ["x", "y"];
    let cases = [
        (bound(&[("x", "a")], &["x"], ""), bound(&[("y", "a")], &["y"], ""), "the name"),
        (bound(&[("x", "a")], &both, ""), bound(&[("y", "a")], &both, ""), "whose the value is"),
        (bound(&[("x", "")], &both, ""), bound(&[], &both, ""), "empty or absent"),
        (bound(&[("x", "a"), ("x", "b")], &["x"], ""), bound(&[("x", "b"), ("x", "a")], &["x"], ""), "their order"),
        (bound(&[("x", "ab"), ("x", "c")], &["x"], ""), bound(&[("x", "a"), ("x", "bc")], &["x"], ""), "their ends"),
        // The number of values counts: otherwise values of the first could pass for the second's name and values.
        (
            bound(&[("x", "a"), ("x", "y"), ("x", "b")], &both, ""),
            bound(&[("x", "a"), ("y", "b"), ("y", "y")], &both, ""),
            "their number",
        ),
        (
            bound(&[("content-type", "x")], &["x"], "ybytesz"),
            bound(&[("content-type", "xbytesy")], &["x"], "z"),
            "where a header ends",
        ),
    ];
    for (one, other, what) in cases {
        assert_ne!(one, other, "{what}");
    }
}

#[test]
fn depth_is_harmless() {
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let work = move || {
        let _ = body(&deep);
    };
    std::thread::Builder::new().stack_size(128 * 1024).spawn(work).unwrap().join().unwrap();
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::{Value, json};
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[ \\\\\"\n\t{}:,]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-c \\\\\"]{0,3}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn white_space_between_tokens_never_counts(value in json()) {
        let (tight, wide) = (value.to_string(), serde_json::to_string_pretty(&value).unwrap());
        let object = value.is_object();
        prop_assert_eq!(body(&tight) == body(&wide), object || tight == wide);
    }

    #[test]
    fn order_of_members_never_counts(members in proptest::collection::btree_map("[a-z ]{0,4}", json(), 0..5), turn: usize) {
        let mut written: Vec<String> =
            members.iter().map(|(name, value)| format!("{}:{value}", serde_json::json!(name))).collect();
        let one = body(&format!("{{{}}}", written.join(",")));
        let turn = turn.checked_rem(written.len()).unwrap_or(0);
        written.rotate_left(turn);
        written.push(r#""txHash":"x""#.to_owned());
        prop_assert_eq!(body(&format!("{{{}}}", written.join(","))), one);
    }

    #[test]
    fn two_values_are_two_digests(a in json(), b in json()) {
        let object = |value: &serde_json::Value| format!(r#"{{"a":{value}}}"#);
        prop_assert_eq!(body(&object(&a)) == body(&object(&b)), a == b);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>) {
        let _ = digest_of("POST", "/", &bytes);
    }
}
