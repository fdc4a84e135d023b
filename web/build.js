// Builds Mission Control's pages into the folder given as argument: flat, self-contained, nothing fetched from elsewhere.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";
import sveltePlugin from "esbuild-svelte";
import config from "./svelte.config.js";

const out = process.argv[2];
if (!out) {
  console.error("usage: node build.js FOLDER");
  process.exit(2);
}
mkdirSync(out, { recursive: true });
const options = {
  entryPoints: ["src/main.ts"],
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  mainFields: ["svelte", "browser", "module", "main"],
  conditions: ["svelte", "browser", "production"],
  legalComments: "none",
  logLevel: "warning",
  metafile: true,
  write: false,
  plugins: [sveltePlugin({ compilerOptions: config.compilerOptions })],
};
// What is loaded later has its program in a file of its own, but brings no sheet with it: all styles are in one.
const result = await build({ ...options, splitting: true, chunkNames: "later-[hash]" });
const whole = await build(options);
const programs = result.outputFiles.filter(({ path }) => path.endsWith(".js"));
for (const { path, contents } of [...programs, ...whole.outputFiles.filter(({ path }) => path.endsWith(".css"))]) {
  writeFileSync(path, contents);
}
cpSync("src/static", out, { recursive: true });

// The packages of which something is in the bundle, as the bundler saw it.
const carried = new Set();
for (const path of Object.keys(result.metafile.inputs)) {
  const found = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
  if (found) carried.add(found[1]);
}
const licenses = [...carried].sort().map((name) => {
  const folder = `node_modules/${name}`;
  const { version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  return `${name} ${version}\n\n${license(folder)}`;
});
writeFileSync(`${out}/licenses.txt`, licenses.join("\n\n----\n\n"));

function license(folder) {
  for (const file of ["LICENSE.md", "LICENSE", "license", "LICENSE.txt"]) {
    try {
      return readFileSync(`${folder}/${file}`, "utf8");
    } catch (error) {
      if (error.code !== "ENOENT") throw error;
    }
  }
  throw new Error(`${folder} holds no licence that could be carried`);
}
