/** Whether the same sources always become the same package, wherever they lie. */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const root = join(import.meta.dirname, '..');

/** Builds and packs copies of the working tree in two folders of different length; returns the hash of each package. */
export function packTwice() {
  return ['a', 'a-much-longer-name'].map((name) => {
    const folder = mkdtempSync(join(tmpdir(), `evenkeel-${name}-`));
    try {
      copyTree(folder);
      const args = [join(folder, 'scripts/pack.mjs'), '--out', join(folder, 'build')];
      const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' });
      const integrity = /sha512-\S+/.exec(stdout)?.[0];
      if (status !== 0 || integrity === undefined) throw new Error(`a copy could not be packed:\n${stdout}${stderr}`);
      return integrity;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
}

/** What git knows or would add, with the installed packages linked one by one: what is cached between them stays outside. @param {string} folder */
function copyTree(folder) {
  const listed = spawnSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  if (listed.status !== 0) throw new Error(`git ls-files failed:\n${listed.stderr}`);
  for (const file of listed.stdout.split('\0').filter((each) => each !== '' && existsSync(join(root, each)))) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(root, file), join(folder, file));
  }
  mkdirSync(join(folder, 'node_modules'));
  for (const name of readdirSync(join(root, 'node_modules')).filter((each) => !each.startsWith('.'))) {
    symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name), 'junction');
  }
}
