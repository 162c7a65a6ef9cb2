/**
 * Builds the documentation site into `build/site`, as static files, and checks what came out.
 *
 *   npm run site                         for the root of a host
 *   npm run site -- --base /evenkeel/    for a folder of one
 */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from 'vitepress';
import { buildIfChanged } from '../scripts/build.mjs';
import { checkBuilt } from './check-built.mjs';
import { llmsFullTxt, llmsTxt } from './llms.mjs';
import { stage } from './stage.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const out = join(root, 'build', 'site');
const { base = '/' } = parseArgs({ options: { base: { type: 'string' } } }).values;

const started = performance.now();
if (buildIfChanged().failed) process.exit(1);
const texts = await stage(root, join(root, '.cache', 'site'));
rmSync(out, { recursive: true, force: true });
await build(join(root, 'site'), { base, outDir: out });

const { description } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
// Beside each page its Markdown, which `llms.txt` lists, with the pictures where it says.
cpSync(join(root, 'docs', 'images'), join(out, 'images'), { recursive: true });
for (const [page, text] of texts) {
  mkdirSync(dirname(join(out, page)), { recursive: true });
  writeFileSync(join(out, page), text);
}
writeFileSync(join(out, 'llms.txt'), llmsTxt(texts, description, base));
writeFileSync(join(out, 'llms-full.txt'), llmsFullTxt(texts, description));

const { pages, links, images, bytes, problems } = checkBuilt(out, base);
for (const problem of problems) console.error(problem);
const seconds = ((performance.now() - started) / 1000).toFixed(0);
console.log(
  `build/site: ${pages} pages, ${links} links, ${images} images, ${(bytes / 1e6).toFixed(1)} MB in ${seconds} s; ${problems.length} problems`,
);
process.exitCode = problems.length === 0 ? 0 : 1;
