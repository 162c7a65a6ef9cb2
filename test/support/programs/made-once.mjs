/** Folders that take long to fill and are the same for everybody: filled once per machine, then copied. */
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const cache = fileURLToPath(new URL('../../../node_modules/.cache/evenkeel', import.meta.url));

/**
 * Fills `folder` from the cache, or with `fill` and keeps the result. Returns whether it came from the cache.
 * @param {object} options
 * @param {string} options.folder does not exist yet, unless `fill` is called with it
 * @param {string} options.program the path of the program that fills it: another version fills its own
 * @param {string} options.kind names the folder in the cache
 * @param {unknown} options.settings all else it depends on
 * @param {() => Promise<void>} options.fill
 */
export async function madeOnce({ folder, program, kind, settings, fill }) {
  const { size, mtimeMs } = statSync(program);
  const hash = createHash('sha256').update(JSON.stringify([program, size, mtimeMs, settings]));
  const made = join(cache, kind, hash.digest('hex'));
  if (existsSync(made)) {
    cpSync(made, folder, { recursive: true });
    return true;
  }
  await fill();
  // Complete or not there at all, even if another process makes one meanwhile.
  const mine = `${made}.${process.pid}`;
  mkdirSync(join(cache, kind), { recursive: true });
  cpSync(folder, mine, { recursive: true });
  try {
    renameSync(mine, made);
  } catch {
    rmSync(mine, { recursive: true });
  }
  return false;
}
