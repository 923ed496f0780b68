// Compiles the contracts beside this file into artifacts/: NAME.bin (creation code) and
// NAME.bin-runtime, in hex. README.md says how to run it; with --check it writes nothing
// and fails where a committed artifact differs from what the compiler makes of the source.
import { readFileSync, readdirSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const SOLC = "0.8.37";

// solc is looked up from the working folder, not from this file's.
const solc = createRequire(join(process.cwd(), "_"))("solc");
if (!solc.version().startsWith(`${SOLC}+`)) {
  console.error(`solc ${SOLC} is needed, this is ${solc.version()}`);
  process.exit(1);
}

const here = dirname(fileURLToPath(import.meta.url));
const artifacts = join(here, "artifacts");
const check = process.argv.includes("--check");

const names = readdirSync(here).filter((name) => name.endsWith(".sol")).sort();
const output = JSON.parse(solc.compile(JSON.stringify({
  language: "Solidity",
  sources: Object.fromEntries(names.map((name) => [name, { content: readFileSync(join(here, name), "utf8") }])),
  settings: {
    // Neither paths nor hashes of sources in the code: the same bytes everywhere.
    metadata: { bytecodeHash: "none", appendCBOR: false },
    evmVersion: "paris",
    optimizer: { enabled: true, runs: 200 },
    outputSelection: { "*": { "*": ["evm.bytecode.object", "evm.deployedBytecode"] } },
  },
})));

for (const error of output.errors ?? []) console.error(error.formattedMessage);
if ((output.errors ?? []).some((error) => error.severity === "error")) process.exit(1);

let stale = 0;
mkdirSync(artifacts, { recursive: true });
for (const contracts of Object.values(output.contracts)) {
  for (const [name, { evm }] of Object.entries(contracts)) {
    if (evm.bytecode.object === "") continue; // abstract
    if (Object.keys(evm.deployedBytecode.immutableReferences ?? {}).length > 0) {
      console.error(`${name} has immutables: its runtime code cannot stand alone`);
      process.exit(1);
    }
    emit(`${name}.bin`, evm.bytecode.object);
    emit(`${name}.bin-runtime`, evm.deployedBytecode.object);
  }
}
process.exit(stale === 0 ? 0 : 1);

function emit(file, hex) {
  const path = join(artifacts, file);
  if (!check) return writeFileSync(path, `${hex}\n`);
  let committed;
  try { committed = readFileSync(path, "utf8"); } catch { committed = ""; }
  if (committed !== `${hex}\n`) {
    stale += 1;
    console.error(`${file} differs from its source`);
  }
}
