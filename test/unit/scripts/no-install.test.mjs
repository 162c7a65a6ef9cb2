import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../../../', import.meta.url));

let folder;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'evenkeel-no-install-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Where a command is. @param {string} command */
function find(command) {
  const places = (process.env.PATH ?? '').split(delimiter).map((entry) => join(entry, command));
  const found = places.find((path) => existsSync(path));
  if (found === undefined) throw new Error(`${command} is not on the PATH`);
  return found;
}

/** `npm test` with nothing on the PATH but node, npm and an apt-get that only writes down what it was asked for. */
function npmTest(/** @type {string[]} */ ...args) {
  const log = join(folder, 'apt-get.log');
  writeFileSync(join(folder, 'apt-get'), `#!/bin/sh\necho "$@" >> ${log}\n`, { mode: 0o755 });
  for (const command of ['sh', 'env']) symlinkSync(realpathSync(find(command)), join(folder, command));
  symlinkSync(process.execPath, join(folder, 'node'));
  const npm = realpathSync(find('npm'));
  const { stdout, stderr, status } = spawnSync(process.execPath, [npm, 'test', '--', ...args], {
    cwd: root,
    encoding: 'utf8',
    env: { ...process.env, PATH: folder, NODE_OPTIONS: '', npm_config_update_notifier: 'false' },
  });
  const asked = existsSync(log) ? readFileSync(log, 'utf8') : '';
  return { output: stdout + stderr, last: stdout.trim().split('\n').at(-1), status, asked };
}

// Elsewhere nothing is ever installed.
const isRoot = process.platform === 'linux' && process.getuid?.() === 0;
describe.runIf(isRoot)(isRoot ? 'npm test as root' : 'npm test as root (skipped: this is not root on Linux)', () => {
  it('installs no system package unless all checks are wanted', () => {
    const { last, status, asked } = npmTest('docs-links');
    expect([asked, status, last]).toEqual(['', 0, '1 passed, 0 failed']);
  });

  it('installs none with --no-install, and says what will not run', () => {
    const { output, last, status, asked } = npmTest('--all', '--no-install', 'docs-links');
    expect(asked).toBe('');
    expect(output).toMatch(/Chromium is not installed: the tests of the playground's page will not run/);
    expect([status, last]).toEqual([0, '1 passed, 0 failed']);
  });

  it('installs them without it, and says so', () => {
    const { output, asked } = npmTest('--all', 'docs-links');
    expect(asked).toContain('install -qq -y --no-install-recommends chromium');
    expect(output).toMatch(/installing .*Chromium.*apt-get; npm test -- --all --no-install leaves them out/);
  });
});
