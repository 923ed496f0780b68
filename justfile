# The commands of everyday work; `just` alone lists them.

_default:
    @just --list

# Format and lints, as CI asks for them
check:
    cargo fmt --all -- --check
    cargo clippy --workspace --all-features --all-targets -- -D warnings

# All tests, doc tests included (they bring up a local chain)
test *args:
    cargo test --all-features {{ args }}

# The library with no feature, then with each one alone
features:
    cargo clippy --lib --no-default-features -- -D warnings
    cargo metadata --no-deps --format-version 1 \
        | node -e 'console.log(Object.keys(JSON.parse(require("fs").readFileSync(0)).packages.find(p => p.name === "tower-x402").features).join("\n"))' \
        | xargs -I% cargo clippy --lib --no-default-features --features % -- -D warnings

# The documentation, as docs.rs will show it
docs *args:
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --all-features {{ args }}

# What a request costs in time, and the parts alone: sealing, reading proofs, judging receipts, signing authorizations
bench *args:
    cargo bench --all-features --bench paywall --bench protocol --bench verify --bench wallet -- {{ args }}

# What a request costs in instructions, against the baseline (`--write` makes a new one); needs valgrind
bench-instructions *args:
    cargo run --release --package tower-x402-instructions -- {{ args }}

# What a request allocates, as the tests assert it
bench-allocations:
    cargo test --all-features --test allocations -- --nocapture

# What a sale costs each ledger; X402_BENCH_RECORDS=1000,1000000 for the figures in benches/README.md
bench-ledger *args:
    cargo bench --all-features --bench ledger {{ args }}

# What channels sell over HTTP, on each ledger; X402_VOUCHERS=1000000 sells so many in process, claims meanwhile, and checks every unit
bench-channels *args:
    cargo bench --all-features --bench channels {{ args }}

# Us and four peers, the same requests in one process (benches/peers); instructions where valgrind is (apt-get install valgrind)
bench-peers:
    cargo build --release --manifest-path benches/peers/Cargo.toml
    cargo run --release --manifest-path benches/peers/Cargo.toml

# Our payment page beside the official one, in Chromium, while `cargo demo` serves
bench-page *args:
    bash benches/page/run {{ args }}

# Our routes over loopback HTTP and with every ledger; X402_BENCH_POSTGRES and X402_BENCH_REDIS name servers to try
bench-http *args:
    @command -v wrk >/dev/null || { echo "wrk is missing: apt-get install wrk" >&2; exit 1; }
    cargo run --release --manifest-path benches/peers/Cargo.toml -p http-bench -- {{ args }}

# The public API, compared with tests/public-api.txt; `--write` writes that text anew (cargo install cargo-public-api)
api *args:
    bash .ci/public-api {{ args }}

# Licences, sources, banned crates, known vulnerabilities (the last need a network)
deny:
    cargo deny check

# Everything that CI runs
ci:
    bash .ci/run
