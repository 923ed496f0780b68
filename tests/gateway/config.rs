//! A wrong configuration gives one line that names file, line and key, and exit code 2; nothing is contacted.

use crate::{
    program::{KEY, NOWHERE, SELLER, Shop},
    support::tools::write_secret,
};

const GOOD: &str = r#"listen = "127.0.0.1:0"
recipient = "0x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e"
sealing_key_file = "seal.key"
ledger = "sqlite:ledger.db"
public_url = "https://shop.example"
mpp = "shop.example"
[[network]]
name = "base"
rpc = ["http://127.0.0.1:9"]
[upstream]
url = "http://127.0.0.1:9000"
timeout = "30s"
[[route]]
match = "GET /reports/{id}"
price = "0.05 USDC"
label = "A report"
redeliver = "15m"
page = true
[[route]]
match = "GET /health"
free = true
[default]
action = "free"
"#;

fn shop(text: &str) -> Shop {
    let shop = Shop::new(NOWHERE, NOWHERE);
    std::fs::write(shop.config(), text).unwrap();
    shop
}

#[test]
fn what_would_be_sold_is_printed_and_nothing_is_contacted() {
    let shop = shop(GOOD);
    let (code, out, complaint) = shop.run(&["--check"]);
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{out}");
    for line in [
        format!("{SELLER} is paid; sales are recorded in sqlite:"),
        "GET /reports/{id}: 0.05 USDC for \"A report\", kept for 15m, with a page (forms posted there are taken for the page's".to_owned(),
        "GET /health: free".to_owned(),
        "everything else: free".to_owned(),
        "transfers only".to_owned(),
    ] {
        assert!(out.contains(&line), "{line} is not in:\n{out}");
    }
    // No ledger was made.
    assert_eq!(std::fs::read_dir(shop.folder.path()).unwrap().count(), 2);
}

#[test]
fn other_forms_of_the_same_are_read() {
    let key = format!("0x{KEY}");
    for (old, new) in [
        ("name = \"base\"", "chain_id = 8453"),
        ("name = \"base\"", "name = \"base-sepolia\""),
        (
            "rpc = [\"http://127.0.0.1:9\"]",
            "rpc_file = \"rpc.url\"\nsettle_key_file = \"settle.key\"\n[[network.token]]\ncontract = \
             \"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913\"\nsymbol = \"USDC\"\ndecimals = 6",
        ),
        ("rpc = [\"http://127.0.0.1:9\"]", "rpc = [\"https://a\", \"https://b\"]\nfacilitator = \"https://f.example\""),
        ("sealing_key_file = \"seal.key\"", "sealing_key_env = \"SEALING\""),
        ("ledger = \"sqlite:ledger.db\"", "ledger_env = \"LEDGER\""),
        ("ledger = \"sqlite:ledger.db\"", "ledger = \"postgres://127.0.0.1/shop\""),
        ("ledger = \"sqlite:ledger.db\"", "ledger = \"memory\""),
        ("action = \"free\"", "action = { price = \"0.01 USDC\" }"),
        ("action = \"free\"", "action = \"deny\""),
        ("match = \"GET /health\"", "match = \"/{*rest}\""),
        (
            "rpc = [\"http://127.0.0.1:9\"]",
            "rpc = [\"https://a\"]\nsettle_key_file = \"settle.key\"\n[mcp]\npath = \"/mcp\"\n[mcp.tools]\nsearch = \"0.01 \
             USDC\"\nstatus = \"free\"",
        ),
        ("free = true", "price = \"1 USDC\"\nfree = false"),
        (
            "rpc = [\"http://127.0.0.1:9\"]",
            "rpc = [\"https://a\"]\nfacilitator = \"https://f.example\"\n[[route]]\nmatch = \"POST /x\"\nprice = { up_to = \"1 USDC\" }",
        ),
        ("url = \"http://127.0.0.1:9000\"", "url = \"https://api.example/v1/\""),
    ] {
        assert!(GOOD.contains(old), "{old}");
        let shop = shop(&GOOD.replacen(old, new, 1));
        write_secret(shop.folder.path().join("rpc.url"), "https://node.example/key\n");
        write_secret(shop.folder.path().join("settle.key"), &key);
        let variables = [("SEALING", KEY), ("LEDGER", "postgres://u:p@127.0.0.1/shop")];
        let output = shop.command(&["--check"]).envs(variables).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{new}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A key that stands where its file should.
macro_rules! secret {
    () => {
        "5ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2"
    };
}

/// What is replaced, by what, the line that is named, and words of the complaint.
const WRONG: &[(&str, &str, usize, &str)] = &[
    ("listen = \"127.0.0.1:0\"", "listen = \"here\"", 1, "listen: write an address and a port"),
    ("listen = \"127.0.0.1:0\"", "listen = 4021", 1, "invalid type: integer"),
    ("listen = \"127.0.0.1:0\"", "listn = \"127.0.0.1:0\"", 1, "unknown field `listn`"),
    ("listen = \"127.0.0.1:0\"\n", "", 1, "missing field `listen`"),
    ("recipient = \"0x5e5e", "recipient = \"0x5e", 2, "recipient:"),
    ("recipient = \"", "recipient = \"0xRECIPIENT", 2, "recipient:"),
    ("recipient = ", "recipient = \"0x1\"\nrecipient = ", 3, "duplicate key"),
    ("mpp = \"shop.example\"", "mpp = \"shop.example", 6, "invalid"),
    (
        "sealing_key_file = \"seal.key\"",
        concat!("sealing_key_file = \"", secret!(), "\""),
        3,
        "sealing_key_file: write the name of a file here",
    ),
    (
        "sealing_key_file = \"seal.key\"",
        concat!("sealing_key_env = \"", secret!(), ",", secret!(), "\""),
        3,
        "sealing_key_env: write the name of a variable",
    ),
    ("sealing_key_file = \"seal.key\"", concat!("sealing_key_file = 0x", secret!()), 3, ""),
    ("sealing_key_file = \"seal.key\"", concat!("sealing_key_file = ", secret!()), 3, ""),
    ("recipient = \"0x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e\"", concat!("recipient = \"0x", secret!(), "\""), 2, ""),
    (
        "ledger = \"sqlite:ledger.db\"",
        "ledger_env = \"postgres://u:hunter2@h/d\"",
        4,
        "ledger_env: write the name of a variable",
    ),
    ("ledger = \"sqlite:ledger.db\"", "ledger_env = \"host=h password=hunter2\"", 4, "ledger_env: write the name of a"),
    (
        "ledger = \"sqlite:ledger.db\"",
        "ledger_file = \"redis://:hunter2@h\"",
        4,
        "ledger_file: write the name of a file here",
    ),
    (
        "rpc = [\"http://127.0.0.1:9\"]",
        "rpc = \"https://node.example/v2/hunter2\"",
        9,
        "rpc: invalid type: text, expected a sequence",
    ),
    (
        "rpc = [\"http://127.0.0.1:9\"]",
        "rpc = \"https://hunter2/\\\", expected hunter2\"",
        9,
        "rpc: invalid type: text, expected a sequence",
    ),
    (
        "rpc = [\"http://127.0.0.1:9\"]",
        "rpc_env = \"https://node.example/v2/hunter2\"",
        9,
        "network.rpc_env: write the name of a variable",
    ),
    (
        "rpc = [\"http://127.0.0.1:9\"]",
        "rpc_file = \"https://node.example/v2/hunter2\"",
        9,
        "network.rpc_file: write the name of a file here",
    ),
    (
        "rpc = [",
        concat!("settle_key_file = \"0x", secret!(), "\"\nrpc = ["),
        9,
        "network.settle_key_file: write the name of a file here",
    ),
    (
        "rpc = [",
        concat!("settle_key_file = [\"0x", secret!(), "\"]\nrpc = ["),
        9,
        "invalid type: sequence, expected a string",
    ),
    (
        "rpc = [",
        concat!("settle_key_file = \"settle.key\"\nchannel_key_file = \"", secret!(), "\"\nrpc = ["),
        10,
        "network.channel_key_file: write the name of a file here",
    ),
    ("name = \"base\"", concat!("chain_id = \"", secret!(), "\""), 8, "chain_id: invalid type: text, expected u64"),
    ("free = true", "free = \"hunter2\"", 21, "free: invalid type: text, expected a boolean"),
    ("sealing_key_file = \"seal.key\"", "", 1, "sealing_key_file: missing"),
    ("\"seal.key\"", "\"none.key\"", 3, "sealing_key_file: cannot read"),
    ("\"seal.key\"", "\"gateway.toml\"", 3, "sealing_key_file: other users"),
    ("\"seal.key\"", "\"seal.key\"\nsealing_key_env = \"X\"", 4, "not both"),
    (
        "sealing_key_file = \"seal.key\"",
        "sealing_key_env = \"NOT_SET\"",
        3,
        "sealing_key_env: the environment variable NOT_SET",
    ),
    ("ledger = \"sqlite:ledger.db\"", "ledger = \"paper\"", 4, "ledger: the ledger is `memory`"),
    ("ledger = \"sqlite:ledger.db\"", "ledger = \"sqlite:\"", 4, "path of a file"),
    ("ledger = \"sqlite:ledger.db\"", "ledger = \"postgres://u:hunter2@h/d\"", 4, "a password does not belong"),
    ("ledger = \"sqlite:ledger.db\"", "ledger = \"redis://:hunter2@h\"", 4, "a password does not belong"),
    ("ledger = \"sqlite:ledger.db\"", "", 1, "ledger: missing"),
    ("ledger = \"sqlite:ledger.db\"", "ledger = \"memory\"\nledger_env = \"X\"", 1, "name one of ledger"),
    ("\"https://shop.example\"", "\"shop.example\"", 5, "public_url:"),
    ("\"https://shop.example\"", "\"https://shop.example/?x\"", 5, "public_url:"),
    ("name = \"base\"", "name = \"bass\"", 8, "network.name:"),
    ("name = \"base\"", "name = \"base\"\nchain_id = 8453", 7, "either name"),
    ("name = \"base\"\n", "", 7, "either name"),
    ("name = \"base\"", "chain_id = 1234", 7, "no USDC is known on chain 1234"),
    ("name = \"base\"", "nmae = \"base\"", 8, "unknown field `nmae`"),
    ("rpc = [\"http://127.0.0.1:9\"]", "", 7, "missing rpc"),
    ("rpc = [\"http://127.0.0.1:9\"]", "rpc = []", 9, "network.rpc:"),
    ("rpc = [\"http://127.0.0.1:9\"]", "rpc = [\"node.example\"]", 9, "network.rpc:"),
    ("rpc = [\"http://127.0.0.1:9\"]", "rpc_file = \"none\"", 9, "network.rpc_file: cannot read"),
    ("rpc = [", "settle_key_file = \"none.key\"\nrpc = [", 9, "network.settle_key_file: cannot read"),
    (
        "rpc = [",
        "settle_key_file = \"bad.key\"\nrpc = [",
        9,
        "network.settle_key_file: the file must have one private key",
    ),
    ("rpc = [", "settle_key_file = \"seal.key\"\nfacilitator = \"https://f\"\nrpc = [", 10, "not both"),
    (
        "rpc = [",
        "settle_key_file = \"seal.key\"\nchannel_key_file = \"none.key\"\nrpc = [",
        10,
        "network.channel_key_file: cannot read",
    ),
    (
        "rpc = [",
        "channel_key_file = \"seal.key\"\nrpc = [",
        9,
        "network.channel_key_file: channels need settle_key_file",
    ),
    ("[upstream]", "[[network]]\nname = \"base\"\nrpc = [\"http://x\"]\n[upstream]", 10, "named twice"),
    ("url = \"http://127.0.0.1:9000\"", "url = \"127.0.0.1:9000\"", 11, "upstream.url:"),
    ("url = \"http://127.0.0.1:9000\"", "url = \"http://user:pw@host\"", 11, "upstream.url:"),
    ("timeout = \"30s\"", "timeout = \"30\"", 12, "upstream.timeout:"),
    ("timeout = \"30s\"", "timeout = \"0s\"", 12, "upstream.timeout:"),
    ("match = \"GET /reports/{id}\"", "match = \"reports\"", 14, "route.match:"),
    ("match = \"GET /reports/{id}\"", "match = \"get /reports\"", 14, "route.match:"),
    ("match = \"GET /reports/{id}\"", "match = \"GET /reports/:id\"", 14, "route.match:"),
    ("match = \"GET /health\"", "match = \"GET /Reports/7\"", 20, "an earlier route matches all"),
    (
        "match = \"GET /health\"\nfree = true",
        "match = \"HEAD /health\"\nprice = \"1 USDC\"",
        21,
        "route.price: the answer to a HEAD is never sold",
    ),
    (
        "match = \"GET /health\"\nfree = true",
        "match = \"TRACE /health\"\nprice = \"1 USDC\"",
        21,
        "route.price: the answer to a TRACE is never sold",
    ),
    (
        "match = \"GET /health\"\nfree = true",
        "match = \"CONNECT /health\"\nprice = \"1 USDC\"",
        21,
        "route.price: the answer to a CONNECT is never sold",
    ),
    (
        "action = \"free\"",
        "action = \"free\"\n[mcp]\npath = \"/Health/\"\n[mcp.tools]",
        20,
        "route.match: [mcp] matches all of its requests",
    ),
    ("price = \"0.05 USDC\"", "pryce = \"0.05 USDC\"", 15, "unknown field `pryce`"),
    ("price = \"0.05 USDC\"\n", "", 14, "route: write price"),
    ("price = \"0.05 USDC\"", "price = 0.05", 15, "expected a price, such as"),
    ("price = \"0.05 USDC\"", "price = \"0.05\"", 15, "route.price:"),
    ("price = \"0.05 USDC\"", "price = \"0.05 EUR\"", 15, "route.price:"),
    ("price = \"0.05 USDC\"", "price = \"0 USDC\"", 15, "above zero"),
    ("price = \"0.05 USDC\"", "price = \"-1 USDC\"", 15, "route.price:"),
    ("price = \"0.05 USDC\"", "price = \"0.0000001 USDC\"", 15, "at most 6 decimals"),
    ("price = \"0.05 USDC\"", "price = \"\"", 15, "route.price:"),
    (
        "price = \"0.05 USDC\"",
        "price = { up_to = \"0.10 USDC\" }",
        15,
        "route.price.up_to: what is metered is paid by signed payments",
    ),
    (
        "rpc = [\"http://127.0.0.1:9\"]",
        "rpc = [\"https://a\"]\nfacilitator = \"https://f.example\"\n[[route]]\nmatch = \"POST /x\"\nprice = { up_to = \"1 EUR\" }",
        13,
        "route.price.up_to: write a price above zero in USDC",
    ),
    (
        "rpc = [\"http://127.0.0.1:9\"]",
        "rpc = [\"https://a\"]\nfacilitator = \"https://f.example\"\n[[route]]\nmatch = \"GET /x\"\nprice = { up_to = \"1 USDC\" }\npage = true",
        14,
        "route.page: the page pays fixed prices",
    ),
    (
        "action = \"free\"",
        "action = \"free\"\n[mcp]\npath = \"/mcp\"\n[mcp.tools]\nsearch = { up_to = \"1 USDC\" }",
        27,
        "mcp.tools.search.up_to: tools have fixed prices",
    ),
    ("price = \"0.05 USDC\"", "price = { at_most = \"0.10 USDC\" }", 15, "unknown field `at_most`"),
    ("price = \"0.05 USDC\"", "price = \"0.05 USDC\"\nfree = true", 16, "a route with a price is not free"),
    ("free = true", "free = false", 20, "route: write price"),
    ("free = true", "free = true\nlabel = \"x\"", 22, "a free route has neither label"),
    ("label = \"A report\"", "label = \"\"", 16, "route.label:"),
    ("redeliver = \"15m\"", "redeliver = \"soon\"", 17, "route.redeliver:"),
    ("match = \"GET /reports/{id}\"", "match = \"POST /reports/{id}\"", 18, "route.page:"),
    ("[default]\naction = \"free\"\n", "", 1, "missing field `default`"),
    ("action = \"free\"", "action = \"fre\"", 23, "default.action:"),
    ("action = \"free\"", "action = { price = { up_to = \"1 USDC\" } }", 23, "default.action.price.up_to"),
    (
        "action = \"free\"",
        "action = \"free\"\n[mcp]\npath = \"/mcp\"\n[mcp.tools]\nsearch = \"0.01 USDC\"",
        24,
        "[mcp]:",
    ),
    ("action = \"free\"", "action = \"free\"\n[mcp]\npath = \"mcp\"\n[mcp.tools]", 25, "mcp.path:"),
    (
        "action = \"free\"",
        "action = \"free\"\n[mcp]\npath = \"/mcp\"\n[mcp.tools]\nsearch = \"gratis\"",
        27,
        "mcp.tools.search:",
    ),
    (
        "action = \"free\"",
        "action = \"free\"\n[mcp]\npath = \"/mcp\"\ntool = 1\n[mcp.tools]",
        26,
        "unknown field `tool`",
    ),
];

#[test]
fn what_is_wrong_is_one_line_and_exit_code_2() {
    for (old, new, line, words) in WRONG {
        assert!(GOOD.contains(old), "{old}");
        let shop = shop(&GOOD.replacen(old, new, 1));
        write_secret(shop.folder.path().join("bad.key"), "hunter2");
        write_secret(shop.folder.path().join("settle.key"), format!("0x{KEY}"));
        // Both ways: a check, and the start.
        for arguments in [&["--check"][..], &[]] {
            let (code, out, complaint) = shop.run(arguments);
            let place = format!("{}:{line}: ", shop.config().display());
            assert_eq!((code, out.as_str()), (Some(2), ""), "{new:?}: {complaint}");
            assert_eq!(complaint.lines().count(), 1, "{new:?}: {complaint}");
            assert!(complaint.contains(&place) && complaint.contains(words), "{new:?}: {complaint}");
            assert!(!complaint.contains("hunter2") && !complaint.contains(secret!()), "{complaint}");
        }
    }
}

#[test]
fn a_file_that_is_not_there_and_settings_that_do_not_fit_are_one_line_too() {
    let shop = Shop::new(NOWHERE, NOWHERE);
    let (code, _, complaint) = shop.run(&["--check"]);
    assert_eq!((code, complaint.lines().count()), (Some(2), 1), "{complaint}");
    assert!(complaint.contains("gateway.toml") && complaint.contains("--config"), "{complaint}");
    for (old, new, words) in [
        (
            "recipient = \"0x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e\"",
            "recipient = \"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913\"",
            "invalid recipient",
        ),
        ("mpp = \"shop.example\"", "mpp = \"\"", "realm"),
    ] {
        let shop = self::shop(&GOOD.replacen(old, new, 1));
        let (code, _, complaint) = shop.run(&["--check"]);
        assert_eq!((code, complaint.lines().count()), (Some(2), 1), "{complaint}");
        assert!(complaint.contains(words), "{complaint}");
    }
}

#[test]
fn the_configuration_of_the_example_is_accepted_with_an_address() {
    let shop = Shop::new(NOWHERE, NOWHERE);
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/gateway/gateway.toml");
    let variables = [("X402_KEY", KEY), ("X402_LEDGER", "postgres://shop:secret@ledger/shop")];
    let example = std::fs::read_to_string(example).unwrap();
    // Nobody is paid until the seller has written an address.
    for (config, code) in [(example.clone(), 2), (example.replace("0xRECIPIENT", &SELLER.to_string()), 0)] {
        std::fs::write(shop.config(), config).unwrap();
        let output = shop.command(&["--check"]).envs(variables).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn init_writes_what_check_accepts_and_overwrites_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let shop = Shop::new(NOWHERE, NOWHERE);
    std::fs::remove_file(shop.folder.path().join("seal.key")).unwrap();
    let seller = SELLER.to_string();
    let (code, out, complaint) = shop.run(&["init", "--recipient", &seller]);
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{out}");
    let files = ["gateway.toml", "seal.key", "settle.key"].map(|name| shop.folder.path().join(name));
    let before = files.clone().map(|file| std::fs::read(file).unwrap());
    for file in &files {
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
    }
    let (code, out, complaint) = shop.run(&["--check"]);
    assert_eq!(code, Some(0), "{complaint}");
    assert!(out.contains(&seller) && out.contains("0.05 USDC"), "{out}");
    // The key in the file is the one whose address was told.
    let text = std::fs::read_to_string(&files[0]).unwrap().replace("# settle_key_file", "settle_key_file");
    std::fs::write(&files[0], &text).unwrap();
    assert_eq!(shop.run(&["--check"]).0, Some(0));
    std::fs::write(&files[0], &before[0]).unwrap();
    for missing in &files {
        let kept = std::fs::read(missing).unwrap();
        std::fs::remove_file(missing).unwrap();
        let (code, _, complaint) = shop.run(&["init"]);
        assert_eq!(code, Some(2), "{complaint}");
        assert!(complaint.contains("is there already; nothing was written") && !missing.exists(), "{complaint}");
        std::fs::write(missing, kept).unwrap();
    }
    assert_eq!(files.map(|file| std::fs::read(file).unwrap()), before);
}
