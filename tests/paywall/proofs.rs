//! Proofs as clients really send them: one hash in many spellings, members twice, headers that disagree. None of them
//! is answered with a bill.

use std::time::Duration;

use axum::body::Body;
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use http::{HeaderValue, Request, header};
use http_body_util::BodyExt as _;
use tower_x402::{
    MerchantBuilder, X402, X402Layer,
    protocol::{Address, Amount, Asset, ChainTime, SealingKeys, TxHash},
    verify::VerifyError,
};

use crate::{
    support::faults::{Fault, Op},
    support::{
        Counter, Handler, KEY, NOW, PRICE, Shop, answering, ask, assert_problem, by_header, echo, intent_of, layered,
        payer, post, proof, quoted, read, recipient, redemption, status, with_status,
    },
};

fn with_header(value: &[u8]) -> Request<Body> {
    Request::post("/answer")
        .header("x402-payment", HeaderValue::from_bytes(value).unwrap())
        .body(Body::from("the question"))
        .unwrap()
}

/// Every spelling of one hash that some reader somewhere takes: three are the hash, in body and header alike, and
/// whoever bought with one of them cannot buy with another.
#[tokio::test]
async fn a_hash_has_one_spelling() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let tx = shop.pay(490_000);
    let hash = tx.to_string();
    let digits = &hash[2..];
    let numbers = tx.as_bytes().map(|byte| byte.to_string()).join(",");
    let string = |text: String| format!(r#""{text}""#);
    let mixed = digits.char_indices().map(|(i, c)| if i % 2 == 0 { c.to_ascii_uppercase() } else { c }).collect();
    let spellings: [(String, bool); 14] = [
        (string(hash.clone()), true),
        (string(format!("0x{}", digits.to_uppercase())), true),
        (string(["0x".to_owned(), mixed].concat()), true),
        (string(format!("0X{digits}")), false),
        (string(digits.to_owned()), false),
        (string(format!(" {hash}")), false),
        (string(format!("{hash} ")), false),
        (string(format!("{hash}\\n")), false),
        (string(format!("0x{}", &digits[1..])), false),
        (string(format!("0x0{digits}")), false),
        (string(format!("0x{}g", &digits[1..])), false),
        (string(format!("eip155:8453:{hash}")), false),
        (format!("[{numbers}]"), false),
        (format!(r#"["{hash}"]"#), false),
    ];
    let mut sold = 0;
    for (spelling, is_hash) in spellings {
        for header in [false, true] {
            let json = format!(r#"{{"intentId":"{}","txHash":{spelling}}}"#, quoted(&service).await);
            let answer = ask(&service, if header { with_header(json.as_bytes()) } else { post(json) }).await;
            match (is_hash, sold) {
                (true, 0) => {
                    assert_eq!(answer.status(), 200, "{spelling}");
                    sold += 1;
                }
                (true, _) => drop(assert_problem(answer, 409, "tx_already_used").await),
                (false, _) => drop(assert_problem(answer, 400, "invalid_redemption").await),
            }
        }
    }
    assert_eq!(sold, 1);
}

/// What a request shows, in the body and in the header: `<I>` stands for the intent, `<T>` for the hash.
const SHAPES: &[(&str, u16, &str)] = &[
    // In order: any order of members, unknown ones, white space, and escapes of the same characters.
    (r#"{"intentId":<I>,"txHash":<T>}"#, 200, ""),
    (r#" { "txHash" : <T> , "intentId" : <I> } "#, 200, ""),
    (r#"{"intentId":<I>,"txHash":<T>,"intentid":1,"TxHash":[],"other":{"intentId":"x","txHash":"y"}}"#, 200, ""),
    (r#"{"intent\u0049d":<I>,"\u0074xHash":<T>}"#, 200, ""),
    // Halves.
    (r#"{"intentId":<I>}"#, 400, "tx_required"),
    (r#"{"intentId":<I>,"txHash":null}"#, 400, "tx_required"),
    (r#"{"intentId":<I>,"txHash":""}"#, 400, "tx_required"),
    (r#"{"txHash":<T>}"#, 400, "intent_required"),
    (r#"{"txHash":<T>,"intentId":null}"#, 400, "intent_required"),
    (r#"{"txHash":<T>,"intentId":""}"#, 400, "intent_required"),
    // Twice, in any spelling, whatever the second says.
    (r#"{"intentId":<I>,"intentId":<I>,"txHash":<T>}"#, 400, "invalid_redemption"),
    (r#"{"intentId":<I>,"intent\u0049d":<I>,"txHash":<T>}"#, 400, "invalid_redemption"),
    (r#"{"intentId":<I>,"txHash":<T>,"txHash":<T>}"#, 400, "invalid_redemption"),
    (r#"{"intentId":<I>,"txHash":<T>,"\u0074\u0078Hash":"0x"}"#, 400, "invalid_redemption"),
    (r#"{"intentId":null,"intentId":<I>,"txHash":<T>}"#, 400, "invalid_redemption"),
    (r#"{"intentId":<I>,"txHash":<T>,"txHash":null}"#, 400, "invalid_redemption"),
    (r#"{"intentId":"","intentId":"","txHash":<T>}"#, 400, "invalid_redemption"),
    (r#"{"txHash":null,"txHash":null}"#, 400, "invalid_redemption"),
    // Other types.
    (r#"{"intentId":[<I>],"txHash":<T>}"#, 400, "invalid_redemption"),
    (r#"{"intentId":{"intentId":<I>},"txHash":<T>}"#, 400, "invalid_redemption"),
    (r#"{"intentId":7,"txHash":<T>}"#, 400, "invalid_redemption"),
    (r#"{"intentId":false,"txHash":<T>}"#, 400, "invalid_redemption"),
    (r#"{"intentId":1e999,"txHash":<T>}"#, 400, "invalid_redemption"),
    (r#"{"intentId":<I>,"txHash":[<T>]}"#, 400, "invalid_redemption"),
    (r#"{"intentId":<I>,"txHash":true}"#, 400, "invalid_redemption"),
    (r#"{"intentId":"\ud800","txHash":<T>}"#, 400, "invalid_redemption"),
    // Wrapped: in arrays, and in strings.
    (r#"[{"intentId":<I>,"txHash":<T>}]"#, 400, "invalid_redemption"),
    (r#""{\"intentId\":\"<i>\",\"txHash\":\"0x\"}""#, 400, "invalid_redemption"),
    // What belongs beside a proof, and shows none.
    (r#"{"paymentSecret":"AAAAAAAAAAAAAAAA"}"#, 400, "invalid_redemption"),
    (r#"{"paymentSignature":"0x12"}"#, 400, "invalid_redemption"),
    (r#"{"intentId":<I>,"txHash":<T>,"paymentSecret":7}"#, 400, "invalid_redemption"),
    // Texts that no seal made.
    (r#"{"intentId":"<i>=","txHash":<T>}"#, 404, "intent_not_found"),
    (r#"{"intentId":" <i>","txHash":<T>}"#, 404, "intent_not_found"),
    (r#"{"intentId":"<i>\n","txHash":<T>}"#, 404, "intent_not_found"),
    (r#"{"intentId":"x","txHash":<T>}"#, 404, "intent_not_found"),
    (r#"{"intentId":" ","txHash":<T>}"#, 404, "intent_not_found"),
    (r#"{"intentId":"null","txHash":<T>}"#, 404, "intent_not_found"),
    (r#"{"intentId":"L192","txHash":<T>}"#, 404, "intent_not_found"),
    (r#"{"intentId":"L193","txHash":<T>}"#, 400, "invalid_redemption"),
];

#[tokio::test]
async fn a_redemption_is_one_object_with_each_member_once() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    for (shape, status, code) in SHAPES {
        for header in [false, true] {
            let json = shape
                .replace("<I>", r#""<i>""#)
                .replace("<i>", &quoted(&service).await)
                .replace("<T>", &format!(r#""{}""#, shop.pay(490_000)))
                .replace("L192", &"a".repeat(192))
                .replace("L193", &"a".repeat(193));
            let answer = ask(&service, if header { with_header(json.trim().as_bytes()) } else { post(json) }).await;
            if code.is_empty() {
                assert_eq!(answer.status().as_u16(), *status, "{shape}");
            } else {
                assert_problem(answer, *status, code).await;
            }
        }
    }
}

/// Members that are absent carry no proof: a body is quoted, a header that says nothing is none to be quoted for.
#[tokio::test]
async fn absent_members_are_no_proof() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    for json in [
        r#"{"intentId":null,"txHash":null}"#,
        r#"{"intentId":"","txHash":""}"#,
        r#"{"paymentSecret":null,"paymentSignature":""}"#,
        "{}",
        "[]",
        "null",
        "7",
        r#""x""#,
    ] {
        assert_problem(ask(&service, post(json)).await, 402, "payment_required").await;
        assert_problem(ask(&service, with_header(json.as_bytes())).await, 400, "invalid_redemption").await;
    }
}

#[tokio::test]
async fn the_header_is_json_or_base64_of_it() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    // 0 to 2 letters of padding, and both letters in which the alphabets differ.
    for filler in ["", "x", "xx", "\u{3ff}?\u{3ff}>", "~~~???>>>"] {
        for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
            let json = format!(
                r#"{{"intentId":"{}","txHash":"{}","filler":"{filler}"}}"#,
                quoted(&service).await,
                shop.pay(490_000)
            );
            let answer = ask(&service, with_header(engine.encode(&json).as_bytes())).await;
            assert_eq!(answer.status(), 200, "{filler} {}", engine.encode(&json));
        }
    }
}

#[tokio::test]
async fn a_header_that_is_neither_is_invalid() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let good = proof(&quoted(&service).await, shop.pay(490_000));
    let encoded = STANDARD.encode(&good);
    let padded = |length: usize| {
        let start = r#"{"filler":""#;
        format!(r#"{start}{}",{}"#, "x".repeat(length - good.len() - start.len() - 1), &good[1..])
    };
    assert_eq!((padded(8193).len(), padded(8192).len()), (8193, 8192));
    for bad in [
        "".to_owned(),
        " ".to_owned(),
        format!(" {good}"),
        format!("{good}}}"),
        format!("{good}{good}"),
        format!("[{good}]"),
        good[1..].to_owned(),
        good.replace('"', "'"),
        format!("\"{}\"", good.replace('"', "\\\"")),
        format!("Bearer {encoded}"),
        STANDARD.encode(&encoded),
        format!("{encoded}="),
        format!("{encoded}===="),
        format!("{}*", &encoded[..encoded.len() - 1]),
        encoded[1..].to_owned(),
        STANDARD.encode(format!("\u{feff}{good}")),
        STANDARD.encode("7"),
        // Good but for their length.
        padded(8193),
        padded(9000),
        STANDARD.encode(padded(8192)),
    ] {
        assert_problem(ask(&service, with_header(bad.as_bytes())).await, 400, "invalid_redemption").await;
    }
    let not_text = [good.as_bytes(), b"\xff"].concat();
    assert_problem(ask(&service, with_header(&not_text)).await, 400, "invalid_redemption").await;
    // At the limit it counts, and nothing of all this harmed the pair.
    assert_eq!(ask(&service, with_header(padded(8192).as_bytes())).await.status(), 200);
}

#[tokio::test]
async fn a_header_sent_twice_is_invalid() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    let good = proof(&intent, tx);
    for (first, second) in [(good.as_str(), good.as_str()), (&good, ""), ("", &good)] {
        let mut request = with_header(first.as_bytes());
        request.headers_mut().append("x402-payment", second.parse().unwrap());
        assert_problem(ask(&service, request).await, 400, "invalid_redemption").await;
    }
    assert_eq!(ask(&service, with_header(good.as_bytes())).await.status(), 200);
}

/// A query is no place for a proof, and both names in it are no chance.
#[tokio::test]
async fn a_proof_in_the_query_is_never_a_bill() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    let long = format!(r#"{{"query":"{}"}}"#, "x".repeat(1 << 17));
    let shown = format!("/answer?query=why&intentId={intent}&txHash={tx}");
    for uri in [shown.as_str(), "/answer?intentId=&txHash=", "/answer?tx%48ash=1&%69ntentId=2"] {
        for (method, body) in [("GET", ""), ("POST", ""), ("POST", "{}"), ("POST", "7"), ("POST", &long)] {
            let request = Request::builder().method(method).uri(uri).header(header::CONTENT_TYPE, "application/json");
            let request = request.body(Body::from(body.to_owned())).unwrap();
            let problem = assert_problem(ask(&service, request).await, 400, "invalid_redemption").await;
            assert!(problem["detail"].as_str().unwrap().contains("not in a query"));
        }
    }
    // One of the names may be the service's own.
    for uri in ["/answer?txHash=0x12", "/answer?intentId=7", "/answer?query=intentId%26txHash"] {
        let request = Request::get(uri).body(Body::empty()).unwrap();
        assert_problem(ask(&service, request).await, 402, "payment_required").await;
    }
    let header_only = layered(&shop.layer().header_only(), echo(Counter::default()));
    let request = Request::get(&shown).body(Body::empty()).unwrap();
    assert_problem(ask(&header_only, request).await, 402, "payment_required").await;
    // A proof where it belongs counts, whatever the query says.
    let mut request = redemption(&intent, tx);
    *request.uri_mut() = shown.parse().unwrap();
    assert_eq!(ask(&service, request).await.status(), 200);
}

/// With a header the body's members mean nothing, whatever they say.
#[tokio::test]
async fn the_header_overrules_the_body() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let bought = (quoted(&service).await, shop.pay(490_000));
    assert_eq!(ask(&service, redemption(&bought.0, bought.1)).await.status(), 200);
    let used = proof(&bought.0, bought.1);
    for body in [used.as_str(), r#"{"intentId":[],"intentId":7}"#, r#"{"txHash":"0X"}"#, "not json", "{"] {
        let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
        let mut request = post(body);
        request.headers_mut().insert("x402-payment", proof(&intent, tx).parse().unwrap());
        let answer = ask(&service, request).await;
        assert_eq!(answer.headers()["x-paid"], format!("eip155:8453/{tx}/0").as_str());
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), body);
    }
    // And a bad header is not rescued by a good body.
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    for bad in ["", "{}", "x", used.replace("intentId", "id").replace("txHash", "tx").as_str()] {
        let mut request = redemption(&intent, tx);
        request.headers_mut().insert("x402-payment", bad.parse().unwrap());
        assert_problem(ask(&service, request).await, 400, "invalid_redemption").await;
    }
    let mut request = redemption(&intent, tx);
    request.headers_mut().insert("x402-payment", used.parse().unwrap());
    assert_problem(ask(&service, request).await, 409, "already_consumed").await;
}

/// A client that shows its proof in both places, at a route that binds requests.
#[tokio::test]
async fn the_same_proof_in_header_and_body_is_one_proof() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer().bind_request(), echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    let both = |in_head: &str, in_body: &str| {
        let mut request = post(format!(r#"{{"query":"why",{}"#, in_body.trim_start_matches('{')));
        request.headers_mut().insert("x402-payment", in_head.parse().unwrap());
        request
    };
    let (shown, other) = (proof(&intent, tx), proof(&intent, shop.pay(490_000)));
    assert_problem(ask(&service, both(&shown, &other)).await, 404, "intent_not_found").await;
    let twice = format!(r#"{{"intentId":"{intent}",{}"#, shown.trim_start_matches('{'));
    assert_problem(ask(&service, both(&shown, &twice)).await, 404, "intent_not_found").await;
    assert_eq!(ask(&service, both(&shown, &shown)).await.status(), 200);
}

/// How a request goes wrong, and how the seller stands when it does.
struct Mishap {
    code: &'static str,
    merchant: fn(MerchantBuilder) -> MerchantBuilder,
    layer: fn(X402Layer) -> X402Layer,
    /// What the payer sends, and when it is mined.
    pay: fn(&Shop) -> TxHash,
    /// What happens between payment and redemption.
    meanwhile: fn(&Shop),
    /// The handler's status.
    status: u16,
    /// How often the redemption is sent.
    times: u32,
    /// The redemption, as this client writes it.
    request: fn(&str, TxHash) -> Request<Body>,
}

const NONE: Mishap = Mishap {
    code: "",
    merchant: |merchant| merchant,
    layer: |layer| layer,
    pay: |shop| shop.pay(490_000),
    meanwhile: |_| {},
    status: 200,
    times: 1,
    request: redemption,
};

fn post_as(content_type: &str, body: String) -> Request<Body> {
    Request::post("/answer").header(header::CONTENT_TYPE, content_type).body(Body::from(body)).unwrap()
}

fn mishaps() -> Vec<Mishap> {
    fn proof_with_space(intent: &str, tx: TxHash) -> Request<Body> {
        post(format!(r#"{{"intentId":"{intent}","txHash":"{tx} "}}"#))
    }
    fn stalled() -> Body {
        let pieces = futures_util::stream::pending::<Result<bytes::Bytes, std::io::Error>>();
        Body::from_stream(pieces)
    }
    vec![
        Mishap { request: |_, tx| post(format!(r#"{{"txHash":"{tx}"}}"#)), code: "intent_required", ..NONE },
        Mishap { request: |intent, _| post(format!(r#"{{"intentId":"{intent}"}}"#)), code: "tx_required", ..NONE },
        Mishap { request: proof_with_space, code: "invalid_redemption", ..NONE },
        Mishap { request: |intent, tx| by_header("HEAD", intent, tx), code: "invalid_redemption", ..NONE },
        Mishap { request: |_, _| with_header(b""), code: "invalid_redemption", ..NONE },
        Mishap { request: |intent, tx| post(format!("{},", proof(intent, tx))), code: "invalid_body", ..NONE },
        Mishap {
            request: |intent, tx| post(proof(intent, tx).replace("}", &format!(r#","x":"{}"}}"#, "x".repeat(1 << 16)))),
            code: "body_too_large",
            ..NONE
        },
        Mishap {
            request: |_, _| {
                let mut request = post("");
                *request.body_mut() = stalled();
                request
            },
            code: "body_timeout",
            ..NONE
        },
        Mishap {
            request: |intent, tx| {
                let mut request = redemption(intent, tx);
                request.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("br"));
                request
            },
            code: "unsupported_encoding",
            ..NONE
        },
        Mishap {
            request: |intent, tx| post_as("text/plain", proof(&intent.to_uppercase(), tx)),
            code: "intent_not_found",
            ..NONE
        },
        Mishap {
            request: |intent, tx| post_as("application/x-www-form-urlencoded", proof(&intent[1..], tx)),
            code: "intent_not_found",
            ..NONE
        },
        Mishap {
            pay: |shop| {
                shop.chain.set_head(ChainTime::from_unix(NOW + 961));
                shop.pay_at(490_000, NOW + 961)
            },
            code: "intent_expired",
            ..NONE
        },
        Mishap { pay: |_| TxHash::new([1; 32]), code: "tx_not_confirmed", ..NONE },
        Mishap { pay: |shop| shop.pay_at(490_000, NOW + 2), code: "tx_not_confirmed", ..NONE },
        Mishap {
            // The wrong token.
            pay: |shop| {
                let token = Asset::USDBC_BASE.contract();
                let amount = Amount::from_base_units(490_000);
                shop.chain.pay(recipient(), token, payer(), amount, ChainTime::from_unix(NOW))
            },
            code: "transfer_not_found",
            ..NONE
        },
        Mishap { pay: |shop| shop.pay(489_999), code: "insufficient_amount", ..NONE },
        Mishap { pay: |shop| shop.pay_at(490_000, NOW - 3600), code: "payment_too_old", ..NONE },
        Mishap { times: 2, code: "already_consumed", ..NONE },
        Mishap { times: 17, status: 500, code: "too_many_attempts", ..NONE },
        Mishap {
            meanwhile: |shop| shop.chain.outage(VerifyError::unavailable()),
            code: "verification_unavailable",
            ..NONE
        },
        Mishap { meanwhile: |shop| shop.faults.always(Op::Reserve, Fault::Hang), code: "ledger_unavailable", ..NONE },
        Mishap { meanwhile: |shop| shop.faults.always(Op::Commit, Fault::AnswerLost), code: "outcome_unknown", ..NONE },
        Mishap { status: 402, code: "upstream_payment_required", ..NONE },
        // In places where none is read.
        Mishap {
            request: |intent, tx| post(serde_json::json!(proof(intent, tx)).to_string()),
            code: "invalid_redemption",
            ..NONE
        },
        Mishap {
            request: |intent, tx| {
                post_as("application/x-www-form-urlencoded", format!("intentId={intent}&txHash={tx}"))
            },
            code: "invalid_redemption",
            ..NONE
        },
        Mishap {
            request: |intent, tx| {
                Request::get(format!("/answer?intentId={intent}&txHash={tx}")).body(Body::empty()).unwrap()
            },
            code: "invalid_redemption",
            ..NONE
        },
        Mishap {
            request: |intent, tx| {
                let mut request = post(format!("[{}]", proof(intent, tx)));
                let pasted = HeaderValue::from_bytes("application/json; charset=utf\u{2011}8".as_bytes()).unwrap();
                request.headers_mut().insert(header::CONTENT_TYPE, pasted);
                request
            },
            code: "invalid_redemption",
            ..NONE
        },
        Mishap {
            // As most clients write it: their own members first.
            request: |intent, tx| post(format!(r#"{{"x":"{}",{}"#, "x".repeat(1 << 17), &proof(intent, tx)[1..])),
            code: "body_too_large",
            ..NONE
        },
        // None at all, in places where one might be overlooked.
        Mishap { request: |intent, tx| post_as("text/plain", format!("\n {}", proof(intent, tx))), ..NONE },
        Mishap { request: |intent, tx| Request::post("/answer").body(proof(intent, tx).into()).unwrap(), ..NONE },
        Mishap { request: |intent, tx| post_as("image/png", proof(intent, tx)), ..NONE },
        Mishap { request: |intent, tx| by_header("GET", intent, tx), layer: X402Layer::header_only, ..NONE },
        Mishap { request: |intent, tx| by_header("OPTIONS", intent, tx), layer: X402Layer::allow_preflight, ..NONE },
    ]
}

/// A client without a human: it pays whatever asks for money, and presents what it paid. Answers the last response's
/// status and code, and how often it paid.
async fn automatic<S: Handler>(shop: &Shop, service: &X402<S>, mishap: &Mishap) -> (u16, String, usize) {
    let (mut paid, mut shown, mut sent) = (0, None::<(String, TxHash)>, 0);
    loop {
        let request = match &shown {
            None => post(r#"{"query":"why"}"#),
            Some((intent, tx)) => (mishap.request)(intent, *tx),
        };
        let response = ask(service, request).await;
        if response.status() == 402 || response.headers().contains_key("pay") {
            let intent = intent_of(&response);
            shown = Some((intent, (mishap.pay)(shop)));
            (mishap.meanwhile)(shop);
            paid += 1;
            assert!(paid < 5, "{}: it pays and pays", mishap.code);
            continue;
        }
        sent += 1;
        if sent < mishap.times {
            continue;
        }
        let (status, body) = read(response).await;
        return (status.as_u16(), body["error"].as_str().unwrap_or_default().to_owned(), paid);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_pays_every_bill_pays_once() {
    for mishap in mishaps() {
        let shop = Shop::open_with(mishap.merchant).await;
        let service = layered(&(mishap.layer)(shop.layer()), status(mishap.status));
        let (status, code, paid) = automatic(&shop, &service, &mishap).await;
        let bodiless = status == 400 && mishap.code == "invalid_redemption" && code.is_empty();
        assert!(code == mishap.code || bodiless, "{code}, not {}", mishap.code);
        assert_eq!(paid, 1, "{}", mishap.code);
    }
}

/// The same through everything that can have changed between quote and redemption.
#[tokio::test]
async fn whoever_pays_every_bill_pays_once_when_the_seller_has_changed() {
    let shop = Shop::open().await;
    let before = layered(&shop.layer(), echo(Counter::default()));
    let other = Address::new([0x5b; 20]);
    type Change = Box<dyn FnOnce(MerchantBuilder) -> MerchantBuilder>;
    let sellers: [(&str, Change, &str); 4] = [
        ("answer", Box::new(|merchant| merchant.sealing_keys(SealingKeys::new([8; 32]))), "intent_not_found"),
        ("answer", Box::new(|merchant| merchant.realm("another")), "intent_not_found"),
        ("another", Box::new(|merchant| merchant), "intent_not_found"),
        ("answer", Box::new(move |merchant| merchant.former_recipient(other)), ""),
    ];
    for (resource, set, code) in sellers {
        let (intent, tx) = (quoted(&before).await, shop.pay(490_000));
        let merchant = shop.sibling(set).await;
        let after = layered(&merchant.charge(resource, PRICE).unwrap(), echo(Counter::default()));
        let answer = ask(&after, redemption(&intent, tx)).await;
        if code.is_empty() {
            assert_eq!(answer.status(), 200);
            continue;
        }
        let fresh = crate::support::fresh_intent(answer, 404, code).await;
        assert_eq!(
            ask(&after, redemption(&fresh, tx)).await.status(),
            200,
            "the same transaction, with a fresh intent"
        );
    }
}

/// A payer whose first redemption meets every trouble in turn gets the answer for the same money in the end.
#[tokio::test(start_paused = true)]
async fn a_payment_outlives_every_trouble() {
    let shop = Shop::open().await;
    let broken = layered(&shop.layer(), status(500));
    let asking = layered(&shop.layer(), status(402));
    let service = layered(&shop.layer(), echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    let ask_once = async || ask(&service, redemption(&intent, tx)).await;

    shop.chain.set_head(ChainTime::from_unix(NOW - 1));
    assert_problem(ask_once().await, 409, "tx_not_confirmed").await;
    shop.chain.set_head(ChainTime::from_unix(NOW));
    shop.chain.outage(VerifyError::unavailable());
    assert_problem(ask_once().await, 503, "verification_unavailable").await;
    shop.chain.outage(None);
    for (question, fault, code) in [
        (Op::Reserve, Fault::Fail, "ledger_unavailable"),
        (Op::Reserve, Fault::Hang, "ledger_unavailable"),
        (Op::Commit, Fault::Fail, "outcome_unknown"),
        (Op::Commit, Fault::Hang, "outcome_unknown"),
    ] {
        shop.faults.always(question, fault);
        assert_problem(ask_once().await, 503, code).await;
        shop.faults.heal();
    }
    assert_eq!(ask(&broken, redemption(&intent, tx)).await.status(), 500);
    assert_problem(ask(&asking, redemption(&intent, tx)).await, 502, "upstream_payment_required").await;
    assert_eq!(ask_once().await.status(), 200);
    assert_problem(ask_once().await, 409, "already_consumed").await;
}

/// A consumed intent is consumed whatever else is true: the node is down, the hash is another, the payment has aged.
#[tokio::test(start_paused = true)]
async fn consumed_whatever_else_is_true() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
    let other = TxHash::new([1; 32]);
    for tx in [tx, other, shop.pay(1), shop.pay(490_000), shop.pay_at(490_000, NOW - 90_000)] {
        assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
    }
    shop.chain.mine(other, []);
    assert_problem(ask(&service, redemption(&intent, other)).await, 409, "already_consumed").await;
    shop.chain.outage(VerifyError::unavailable());
    assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
    shop.chain.outage(None);
    shop.chain.hang(tx);
    assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
    shop.clock.advance(Duration::from_secs(90 * 24 * 60 * 60));
    assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
    // But where the ledger cannot say, nobody pretends to know.
    shop.faults.always(Op::IsConsumed, Fault::Hang);
    assert_problem(ask(&service, redemption(&intent, tx)).await, 503, "ledger_unavailable").await;
}

/// A verifier that never answers is one that cannot.
#[tokio::test(start_paused = true)]
async fn a_verifier_that_hangs_is_unavailable() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    shop.chain.hang(tx);
    assert_problem(ask(&service, redemption(&intent, tx)).await, 503, "verification_unavailable").await;
    assert_eq!(shop.ledger.counts().unwrap().reserved, 0);
}

#[tokio::test]
async fn every_method_is_priced() {
    let shop = Shop::open().await;
    let counter = Counter::default();
    let service = layered(&shop.layer(), answering(counter.clone(), |_| with_status(200)));
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "CONNECT", "BREW"] {
        let request = || Request::builder().method(method).uri("/answer").body(Body::empty()).unwrap();
        let quote = ask(&service, request()).await;
        assert_eq!(quote.status(), 402, "{method}");
        let (intent, tx) = (intent_of(&quote), shop.pay(490_000));
        let runs = counter.runs();
        let answer = ask(&service, by_header(method, &intent, tx)).await;
        if method == "HEAD" {
            assert_eq!((answer.status().as_u16(), counter.runs()), (400, runs));
            assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty());
            assert_eq!(ask(&service, by_header("GET", &intent, tx)).await.status(), 200, "it took nothing");
        } else {
            assert_eq!((answer.status().as_u16(), counter.runs()), (200, runs + 1), "{method}");
            assert!(answer.headers().contains_key("payment-response"));
        }
    }
}

fn preflight() -> Request<Body> {
    Request::options("/answer")
        .header(header::ORIGIN, "https://shop.example")
        .header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST")
        .body(Body::empty())
        .unwrap()
}

/// A preflight may pass, but nothing that could be sold leaves by it.
#[tokio::test]
async fn preflights_pass_only_where_told_and_carry_no_answer() {
    let shop = Shop::open().await;
    let counter = Counter::default();
    let handler = answering(counter.clone(), |_| {
        let mut response = with_status(200);
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(19));
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        response
    });
    assert_problem(ask(&layered(&shop.layer(), handler.clone()), preflight()).await, 402, "payment_required").await;
    let service = layered(&shop.layer().allow_preflight(), handler);
    let answer = ask(&service, preflight()).await;
    assert_eq!((answer.status().as_u16(), counter.runs()), (200, 1));
    assert_eq!(answer.headers()["access-control-allow-origin"], "*");
    assert!(!answer.headers().contains_key(header::CONTENT_LENGTH));
    assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty());
    // An OPTIONS that is no preflight is priced all the same.
    for missing in [header::ORIGIN, header::ACCESS_CONTROL_REQUEST_METHOD] {
        let mut request = preflight();
        request.headers_mut().remove(missing);
        assert_problem(ask(&service, request).await, 402, "payment_required").await;
    }
    let mut get = preflight();
    *get.method_mut() = http::Method::GET;
    assert_problem(ask(&service, get).await, 402, "payment_required").await;
}

/// An answer can also be an address to fetch it from, a switched protocol, or any header at all: none leaves by a preflight.
#[tokio::test]
async fn no_preflight_hands_out_an_answer_in_its_head() {
    let shop = Shop::open().await;
    let answers = [
        ("location", "/signed"),
        ("content-location", "/signed"),
        ("upgrade", "websocket"),
        ("refresh", "0; url=/signed"),
        ("link", "</signed>; rel=next"),
        ("set-cookie", "paid=1"),
        ("x-answer", "42"),
        ("pay", "{}"),
        ("content-length", "19"),
    ];
    let about = [("vary", "origin"), ("access-control-allow-methods", "POST"), ("allow", "POST, OPTIONS")];
    for status in [101, 201, 301, 302, 303, 307, 308, 402] {
        let handler = answering(Counter::default(), move |_| {
            let mut response = with_status(status);
            for (name, value) in answers.into_iter().chain(about) {
                response.headers_mut().insert(name, HeaderValue::from_static(value));
            }
            response
        });
        let answer = ask(&layered(&shop.layer().allow_preflight(), handler), preflight()).await;
        assert!(answer.status() != 101 && answer.status() != 402, "{status}");
        for (name, _) in answers {
            assert!(!answer.headers().contains_key(name), "{status} {name}");
        }
        for (name, value) in about {
            assert_eq!(answer.headers()[name], value);
        }
        assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty());
    }
}

/// With CORS outside, as the documentation says, a browser may read all of it.
#[tokio::test]
async fn cors_outside_the_layer_keeps_the_payment_headers_readable() {
    use tower::{Layer as _, ServiceExt as _};
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let cors = tower_http::cors::CorsLayer::permissive().layer(service.clone());
    let answer = cors.clone().oneshot(preflight()).await.unwrap();
    assert_eq!(answer.status(), 200, "preflights never reach the layer");
    assert!(!answer.headers().contains_key("pay"));
    let mut request = post("{}");
    request.headers_mut().insert(header::ORIGIN, HeaderValue::from_static("https://shop.example"));
    let quote = cors.oneshot(request).await.unwrap();
    assert_eq!(quote.status(), 402);
    let exposed: Vec<_> = quote.headers().get_all(header::ACCESS_CONTROL_EXPOSE_HEADERS).iter().collect();
    assert!(
        exposed.iter().any(|line| line.to_str().unwrap().contains("X-Price-Intent") || *line == "*"),
        "{exposed:?}"
    );
}

/// Keys of another seller do not open an intent, however it is spelt.
#[tokio::test]
async fn an_intent_of_another_seller_is_not_found() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), echo(Counter::default()));
    let stranger = Shop::open_with(|merchant| merchant.sealing_keys(SealingKeys::new([8; 32]))).await;
    let theirs = quoted(&layered(&stranger.layer(), echo(Counter::default()))).await;
    let same_key = Shop::open_with(|merchant| merchant.sealing_keys(SealingKeys::new(KEY))).await;
    let ours = quoted(&layered(&same_key.layer(), echo(Counter::default()))).await;
    let tx = shop.pay(490_000);
    assert_problem(ask(&service, redemption(&theirs, tx)).await, 404, "intent_not_found").await;
    assert_eq!(ask(&service, redemption(&ours, tx)).await.status(), 200, "any replica with the key opens it");
}
