// Builds the viewer into the folder given as argument: flat, self-contained, nothing fetched from elsewhere.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const out = process.argv[2];
if (!out) {
  console.error("usage: node build.js FOLDER");
  process.exit(2);
}
mkdirSync(out, { recursive: true });
await build({
  entryPoints: ["src/viewer.js", "src/landing.js", "src/viewer.css", "src/landing.css"],
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  legalComments: "none",
  logLevel: "warning",
});
cpSync("src/static", out, { recursive: true });
const carried = { "@novnc/novnc": "LICENSE.txt", "@xterm/xterm": "LICENSE", "@xterm/addon-fit": "LICENSE" };
const licenses = Object.entries(carried).map(([name, file]) => {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  return `${name} ${version}\n\n${readFileSync(`node_modules/${name}/${file}`, "utf8")}`;
});
writeFileSync(`${out}/licenses.txt`, licenses.join("\n\n----\n\n"));
